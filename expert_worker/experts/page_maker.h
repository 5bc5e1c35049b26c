// PageMaker: the pages of bound memory, made as long as the nodes have room for them.
//
// Before a part is made, room is asked for; what others are making at that moment may be missing in the
// answer already, or not yet. So a part that seems not to fit waits until they have ended and asks again:
// only then it is spilled, and with it all that come later. What asks, makes and spills is given, so that
// this is about the order only. Make is for any thread; the others are done.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"

namespace numoe::worker {

class PageMaker {
 public:
  using Part = absl::Span<std::byte>;
  struct Calls {
    std::function<uint64_t()> room;  // bytes that the nodes have now; one thread at a time
    std::function<absl::Status(const Part&)> make;
    std::function<absl::Status(const Part&)> spill;  // to wherever there is room; an error ends the load
  };
  explicit PageMaker(Calls calls) : calls_(std::move(calls)) {}
  PageMaker(const PageMaker&) = delete;
  PageMaker& operator=(const PageMaker&) = delete;

  absl::Status Make(const Part& part);
  /// Bytes.
  uint64_t spilled() const;

 private:
  bool Claim(size_t bytes);
  void Release(size_t bytes);
  absl::Status Spill(const Part& part);

  const Calls calls_;
  mutable Mutex mutex_;
  CondVar ended_;
  uint64_t in_work_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t spilled_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace numoe::worker
