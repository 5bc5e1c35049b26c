// DirectExchange: kernels send routed work to the workers and receive the replies themselves, through the
// workers' mailboxes in shared memory (kernels/handover.h). The host only opens and closes a step.
//
// Used by captured steps. The first call is made through the host; it is then checked once whether all
// workers can be reached directly. Errors are UNAVAILABLE if the step may be repeated. Owned and called by
// the engine's thread.
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

  /// `experts` is null if the backend has no shared memory.
  void Connect(DirectExperts* experts) { experts_ = experts; }
  /// Checks whether the workers can be reached directly. Does nothing if an earlier call found that out;
  /// while a worker is away, no call can.
  void CheckOnce();
  /// Whether the workers can be reached directly; false until this was checked.
  bool possible() const { return possible_; }

  void BeginStep() { replies_ = {}; }
  /// Advances to the next reply; also called in a replayed step, in which nothing is enqueued.
  void NextReply(ReplyPart part) { ++replies_[static_cast<size_t>(part)]; }
  /// Opens the workers' mailboxes for this step, unless they are open, and describes them in each of `steps`.
  absl::Status Open(bool exact, absl::Span<HandoverStep> steps);
  void EnqueueSend(const RoutedCall& call, const HandoverStep* step);
  void EnqueueAdd(ReplyPart part, float* residual, int rows, int hidden_size, const HandoverStep* step);
  /// Closes the mailboxes that Open opened. Called after the step's work was waited for; `result` is the
  /// result of waiting. `ran` is false if nothing was launched.
  absl::Status Close(const absl::Status& result, bool ran);

 private:
  DirectExchange(Runtime& runtime, Stream stream) : runtime_(runtime), stream_(stream) {}
  int replies(ReplyPart part) const { return replies_[static_cast<size_t>(part)]; }
  void DropOldSegments(const DirectStep& direct);
  absl::StatusOr<std::byte*> DeviceAddress(const MailboxEndpoint& endpoint);
  absl::Status Describe(const HandoverFault& fault) const;

  // A session's segment stays mapped as long as it is pinned; otherwise other memory that is mapped at its
  // address later would be taken for pinned memory.
  struct Registered {
    std::shared_ptr<const void> mapping;
    std::unique_ptr<Memory> memory;  // destroyed first
  };

  Runtime& runtime_;
  const Stream stream_;
  DirectExperts* experts_ = nullptr;
  bool possible_ = false;
  bool checked_ = false;
  bool open_ = false;                // in this step
  std::array<int, 2> replies_ = {};  // number of replies in this step, by ReplyPart
  std::list<Registered> segments_;
  std::unique_ptr<Memory> fault_, release_;  // host memory
  std::unique_ptr<Memory> blocks_done_;
};

}  // namespace numoe::execution::cuda
