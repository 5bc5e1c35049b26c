// LocalBackend: computes the routed experts in this process, in one or more slices, without a transport.
//
// Tests of whole models use it. It is also the reference whose results shared memory and network must equal:
// slices are added in worker order in fp32, exactly as in ExpertFanOut. It does not own the executors. One
// thread.
#pragma once

#include <vector>

#include "common/transport/layer_call.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe::execution {

class LocalBackend final : public ExpertBackend {
 public:
  /// `executors` are in worker order and must outlive the backend.
  explicit LocalBackend(std::vector<LayerExecutor*> executors) : executors_(std::move(executors)) {}

  absl::Status Start(const LayerCallView& call) override;
  absl::Status Finish(absl::Span<float> out) override;
  absl::Status FinishDeferred(absl::Span<float> out) override;
  absl::Status AwaitReady(int64_t) override { return absl::OkStatus(); }
  bool Ready() const override { return true; }

 private:
  const std::vector<LayerExecutor*> executors_;
  SplitCall call_;
  std::vector<float> partial_;                // [tokens, hidden]
  std::vector<std::vector<float>> deferred_;  // [executors][tokens, hidden]; computed while the call is valid
};

}  // namespace numoe::execution
