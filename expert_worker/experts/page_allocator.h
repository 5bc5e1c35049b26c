// PageAllocator: allocates the pages of bound memory while the nodes have room for them, and elsewhere after
// that.
//
// Before a part is allocated, the nodes' free memory is read. That number may or may not already count the
// parts that other threads are allocating at that moment. So a part that seems not to fit waits until the
// others are finished, and the number is read again. If the part still does not fit, it is allocated
// elsewhere, and so are all parts that come after it. The functions that read and allocate are given, so that
// this class decides about the order only. Any thread may call Allocate; the other functions belong to the
// thread that owns the object.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"

namespace numoe::worker {

class PageAllocator {
 public:
  using Part = absl::Span<std::byte>;
  struct Calls {
    std::function<uint64_t()> free_bytes;  // bytes that are free on the nodes; called by one thread at a time
    std::function<absl::Status(const Part&)> allocate;
    // Allocates on any node with free memory; an error ends the load.
    std::function<absl::Status(const Part&)> allocate_elsewhere;
  };
  explicit PageAllocator(Calls calls) : calls_(std::move(calls)) {}
  PageAllocator(const PageAllocator&) = delete;
  PageAllocator& operator=(const PageAllocator&) = delete;

  /// Allocates `part` on the nodes or elsewhere.
  absl::Status Allocate(const Part& part);
  /// Returns the bytes of all parts that were allocated elsewhere.
  uint64_t bytes_elsewhere() const;

 private:
  bool Claim(size_t bytes);
  void Release(size_t bytes);
  absl::Status AllocateElsewhere(const Part& part);

  const Calls calls_;
  mutable Mutex mutex_;
  CondVar ended_;
  uint64_t in_work_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes that threads are allocating on the nodes
  uint64_t elsewhere_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace numoe::worker
