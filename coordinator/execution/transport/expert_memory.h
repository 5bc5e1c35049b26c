// ExpertMemory: one worker's weights, mapped from the memory that the worker shares.
//
// The memory is mapped read-only, and only if no other process than the worker can write to it
// (write-sealed). The mapping stays valid when the worker dies, because the file is sealed. But the mapping
// keeps the pages allocated, and a worker that starts again needs as many: so the memory of a lost worker is
// unmapped as soon as no step uses it (deferred_unmapper.h). A device brackets its use with BeginUse and
// EndUse, and stores here the object that pins the memory, which is released together with the memory. The
// engine thread uses the memory, and the unmapper's thread unmaps it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "common/transport/mapped_weights.h"

namespace numoe::execution {

/// The part of the model that a worker holds.
struct ExpertShare {
  bool by_expert = false;
  int worker_index = 0;
  int worker_count = 1;
  int num_experts = 0;  // in a layer of the model

  /// Returns how many experts of a layer the worker holds.
  int held() const {
    return by_expert ? (num_experts - worker_index + worker_count - 1) / worker_count : num_experts;
  }
};

class ExpertMemory {
 public:
  /// Returns INVALID_ARGUMENT if the memory does not match the directory, could shrink, or if other processes
  /// could write to it.
  static absl::StatusOr<std::shared_ptr<ExpertMemory>> Map(FileDescriptor fd, MappedWeights directory,
                                                           const ExpertShare& share);
  ~ExpertMemory();
  ExpertMemory(const ExpertMemory&) = delete;
  ExpertMemory& operator=(const ExpertMemory&) = delete;

  const MappedWeights& directory() const { return directory_; }
  const ExpertShare& share() const { return share_; }
  /// Returns the layer's experts, page-aligned. REQUIRES: between BeginUse and EndUse.
  absl::Span<const std::byte> Bytes(const MappedLayer& layer) const;

  /// Returns false if the memory was unmapped.
  bool BeginUse();
  void EndUse();
  /// Stores the object that keeps the pages pinned for a device; it replaces an earlier one. REQUIRES: in
  /// use.
  void Pin(std::shared_ptr<void> pins);
  void Unpin();
  bool pinned() const;
  /// Unpins and unmaps the memory. Returns false if it is in use; try again later.
  bool Unmap();

 private:
  ExpertMemory(MappedWeights directory, const ExpertShare& share)
      : directory_(std::move(directory)), share_(share) {}

  const MappedWeights directory_;
  const ExpertShare share_;
  mutable Mutex mutex_;
  bool in_use_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<void> pins_ ABSL_GUARDED_BY(mutex_);
  void* base_ = nullptr;  // null if unmapped; changes only while it is not in use
};

}  // namespace numoe::execution
