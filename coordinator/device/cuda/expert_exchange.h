// ExpertExchange: a step's routed work on its way from the device to the experts and back, by one of two
// ways.
//
// Direct: kernels drive the workers' mailboxes (kernels/handover.h); the host only opens and closes the step.
// Staged: hidden states and routing come to pinned memory, the host calls the backend, the sums go back; for
// workers on other hosts, and for steps that are not captured. Which of them a backend allows is asked once.
// Errors are UNAVAILABLE where the step may be replayed. One thread, the engine's.
#pragma once

#include <array>
#include <list>
#include <memory>

#include "common/transport/layer_call.h"
#include "coordinator/device/cuda/kernels/handover.h"
#include "coordinator/device/cuda/runtime.h"
#include "coordinator/device/cuda/step_buffers.h"
#include "coordinator/transport/expert_backend.h"

namespace numoe::cuda {

/// One layer's routed work, in device memory, by rows of the bucket.
struct ExchangeCall {
  LayerId layer = 0;
  int first = 0;   // row of the step
  int rows = 0;    // of the bucket
  int tokens = 0;  // without padding
  int hidden_size = 0;
  int experts_per_token = 0;
  int deferred_experts = 0;  // the last places of every row
  bool exact = false;
  const Bf16* hidden = nullptr;
  const ExpertId* experts = nullptr;
  const float* weights = nullptr;
};

class ExpertExchange {
 public:
  static absl::StatusOr<std::unique_ptr<ExpertExchange>> Create(int rows_max, Runtime& runtime,
                                                                Stream stream);

  /// Whether the backend's workers can be reached directly; false until a staged call has met it.
  bool direct() const { return direct_; }
  void BeginStep() { replies_ = {}; }
  /// The reply after this one; also of a replayed step, where nothing is enqueued.
  void NextReply(ReplyPart part) { ++replies_[static_cast<size_t>(part)]; }

  // --- direct ----------------------------------------------------------------------------------------------
  /// Opens the workers' mailboxes for this step, once, and describes them in each of `steps`.
  absl::Status Open(ExpertBackend& experts, bool exact, absl::Span<HandoverStep> steps);
  void EnqueueSend(const ExchangeCall& call, const HandoverStep* step);
  void EnqueueAdd(ReplyPart part, float* residual, int rows, int hidden_size, const HandoverStep* step);
  /// Closes what Open opened, after the step's work was waited for with `result`. `ran` false: nothing was
  /// launched.
  absl::Status Close(const absl::Status& result, bool ran);

  // --- staged ----------------------------------------------------------------------------------------------
  /// Enqueues the way to pinned memory; another call of other rows may be out.
  void Stage(const ExchangeCall& call);
  /// Waits for what was staged, not for what was enqueued since, and makes the call.
  absl::Status Start(ExpertBackend& experts);
  absl::Status Finish(ExpertBackend& experts, float* residual);
  absl::Status FinishDeferred(ExpertBackend& experts, float* residual);

 private:
  ExpertExchange(int rows_max, Runtime& runtime, Stream stream)
      : rows_max_(rows_max), runtime_(runtime), stream_(stream) {}
  absl::Status Reserve(const ExchangeCall& call);
  absl::Span<float> Cleared(const Memory& sums) const;
  const float* OnDevice(absl::Span<float> sums, const Memory& memory) const;
  int replies(ReplyPart part) const { return replies_[static_cast<size_t>(part)]; }
  void Ask(ExpertBackend& experts);
  void DropOldSegments(const DirectStep& direct);
  absl::StatusOr<std::byte*> DeviceAddress(const DirectPort& port);
  absl::Status Describe(const HandoverFault& fault) const;

  // A session's segment stays mapped as long as it is pinned: what else came to its address would pass for
  // pinned memory.
  struct Registered {
    std::shared_ptr<const void> mapping;
    std::unique_ptr<Memory> memory;  // given up first
  };

  const int rows_max_;
  Runtime& runtime_;
  const Stream stream_;
  bool direct_ = false;
  bool asked_ = false;
  ExpertBackend* open_ = nullptr;    // of this step
  std::array<int, 2> replies_ = {};  // of this step, by ReplyPart
  std::list<Registered> segments_;
  std::unique_ptr<Memory> fault_, release_;  // host memory
  std::unique_ptr<Memory> blocks_done_;
  // Staged: [rows_max, hidden] and [rows_max, experts_per_token] of host memory, made at the first call. A
  // call has its own rows of them, so one half's may be filled while the other's are with the workers.
  std::unique_ptr<Memory> host_hidden_, host_sums_, host_deferred_, host_experts_, host_weights_;
  Event ready_ = nullptr;  // what was staged last is on the host
  absl::Status reserved_;  // for the staged call
  ExchangeCall staged_;    // from Stage to Start
  ExchangeCall called_;    // with the workers, or back last
};

}  // namespace numoe::cuda
