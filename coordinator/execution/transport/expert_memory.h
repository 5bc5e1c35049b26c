// ExpertMemory: one worker's weights, mapped from the memory that it shares with this host.
//
// It is mapped read-only, and only if no process but the worker can write to it (write-sealed). The mapping
// stays valid when the worker dies, because the file is sealed. But the mapping keeps the pages alive, and a
// worker that starts again needs as many: so the memory of a lost worker is retired as soon as nobody
// uses it (memory_retirer.h). A device brackets its use with BeginUse and EndUse, and leaves here what it
// pinned the memory with; that goes with the memory. The engine's thread uses, the retirer's thread retires.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "common/transport/mapped_weights.h"

namespace numoe::execution {

/// Which part of the model a worker holds.
struct ExpertShare {
  bool by_expert = false;
  int worker_index = 0;
  int worker_count = 1;
  int num_experts = 0;  // of a layer of the model

  /// That the worker holds, of a layer.
  int held() const {
    return by_expert ? (num_experts - worker_index + worker_count - 1) / worker_count : num_experts;
  }
};

class ExpertMemory {
 public:
  /// INVALID_ARGUMENT: the memory is not what the directory says, could shrink, or others could write to it.
  static absl::StatusOr<std::shared_ptr<ExpertMemory>> Map(FileDescriptor fd, MappedWeights directory,
                                                           const ExpertShare& share);
  ~ExpertMemory();
  ExpertMemory(const ExpertMemory&) = delete;
  ExpertMemory& operator=(const ExpertMemory&) = delete;

  const MappedWeights& directory() const { return directory_; }
  const ExpertShare& share() const { return share_; }
  /// The layer's experts, page-aligned. REQUIRES: between BeginUse and EndUse.
  absl::Span<const std::byte> Bytes(const MappedLayer& layer) const;

  /// False: it was retired.
  bool BeginUse();
  void EndUse();
  /// What holds the pages for a device; replaces what was there. REQUIRES: in use.
  void Pin(std::shared_ptr<void> pins);
  void Unpin();
  bool pinned() const;
  /// Unpins and unmaps. False: it is in use, ask again.
  bool Retire();

 private:
  ExpertMemory(MappedWeights directory, const ExpertShare& share)
      : directory_(std::move(directory)), share_(share) {}

  const MappedWeights directory_;
  const ExpertShare share_;
  mutable Mutex mutex_;
  bool in_use_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<void> pins_ ABSL_GUARDED_BY(mutex_);
  void* base_ = nullptr;  // null: retired; changes only while it is not in use
};

}  // namespace numoe::execution
