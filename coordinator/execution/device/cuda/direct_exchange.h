// DirectExchange: routed work that kernels hand to the workers and take back themselves, through the workers'
// mailboxes in shared memory (kernels/handover.h). The host only opens and closes a step.
//
// For captured steps. Whether the workers can be reached so is asked once, when the first call is made
// through the host; who asks is the engine's thread, which owns this. Errors are UNAVAILABLE where the step
// may be made again.
#pragma once

#include <array>
#include <list>
#include <memory>

#include "common/transport/layer_call.h"
#include "coordinator/execution/device/cuda/kernels/handover.h"
#include "coordinator/execution/device/cuda/routed_call.h"
#include "coordinator/execution/device/cuda/runtime.h"
#include "coordinator/execution/transport/direct_experts.h"

namespace numoe::execution::cuda {

class DirectExchange {
 public:
  static absl::StatusOr<std::unique_ptr<DirectExchange>> Create(Runtime& runtime, Stream stream);

  /// `experts` null: the backend has no shared memory.
  void Connect(DirectExperts* experts) { experts_ = experts; }
  /// Asks the workers once whether they can be reached directly; again where one was away.
  void AskOnce();
  /// Whether they can; false until they were asked.
  bool possible() const { return possible_; }

  void BeginStep() { replies_ = {}; }
  /// The reply after this one; also of a replayed step, where nothing is enqueued.
  void NextReply(ReplyPart part) { ++replies_[static_cast<size_t>(part)]; }
  /// Opens the workers' mailboxes for this step, once, and describes them in each of `steps`.
  absl::Status Open(bool exact, absl::Span<HandoverStep> steps);
  void EnqueueSend(const RoutedCall& call, const HandoverStep* step);
  void EnqueueAdd(ReplyPart part, float* residual, int rows, int hidden_size, const HandoverStep* step);
  /// Closes what Open opened, after the step's work was waited for with `result`. `ran` false: nothing was
  /// launched.
  absl::Status Close(const absl::Status& result, bool ran);

 private:
  DirectExchange(Runtime& runtime, Stream stream) : runtime_(runtime), stream_(stream) {}
  int replies(ReplyPart part) const { return replies_[static_cast<size_t>(part)]; }
  void DropOldSegments(const DirectStep& direct);
  absl::StatusOr<std::byte*> DeviceAddress(const DirectPort& port);
  absl::Status Describe(const HandoverFault& fault) const;

  // A session's segment stays mapped as long as it is pinned: what else came to its address would pass for
  // pinned memory.
  struct Registered {
    std::shared_ptr<const void> mapping;
    std::unique_ptr<Memory> memory;  // given up first
  };

  Runtime& runtime_;
  const Stream stream_;
  DirectExperts* experts_ = nullptr;
  bool possible_ = false;
  bool asked_ = false;
  bool open_ = false;                // in this step
  std::array<int, 2> replies_ = {};  // of this step, by ReplyPart
  std::list<Registered> segments_;
  std::unique_ptr<Memory> fault_, release_;  // host memory
  std::unique_ptr<Memory> blocks_done_;
};

}  // namespace numoe::execution::cuda
