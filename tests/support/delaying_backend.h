// DelayingBackend: a simple reference implementation of expert deferral, for tests.
//
// It is called by a model without deferral, and calls the executors that compute the model's experts. For
// every token the experts with the smallest weights are computed with their layer, but added with the next
// layer's; those of the last layer with experts are added with their own layer. One thread.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/transport/layer_call.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe {

class DelayingBackend final : public execution::ExpertBackend {
 public:
  /// `last_layer` is the model's last one with experts.
  DelayingBackend(std::vector<LayerExecutor*> executors, LayerId last_layer)
      : executors_(std::move(executors)), last_layer_(last_layer) {}

  /// The number of deferred experts of each token, beginning with the next step.
  void Defer(int experts) { deferred_ = experts; }

  absl::Status Start(const LayerCallView& call) override {
    NUMOE_CHECK_EQ(call.deferred_experts, 0);
    call_ = call;
    return absl::OkStatus();
  }

  absl::Status Finish(absl::Span<float> out) override {
    const std::vector<bool> light = Lightest();
    AddTo(out, Sums(light, false));
    if (!late_.empty()) AddTo(out, std::exchange(late_, {}));
    late_ = Sums(light, true);
    if (call_.layer == last_layer_) AddTo(out, std::exchange(late_, {}));
    return absl::OkStatus();
  }
  absl::Status AwaitReady(int64_t) override { return absl::OkStatus(); }
  bool Ready() const override { return true; }

 private:
  static void AddTo(absl::Span<float> out, const std::vector<float>& sums) {
    NUMOE_CHECK_EQ(out.size(), sums.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] += sums[i];
  }

  // Which entries of the call are deferred.
  std::vector<bool> Lightest() const {
    const auto k = static_cast<size_t>(call_.experts_per_token);
    std::vector<bool> light(call_.experts.size());
    for (size_t t = 0; t < static_cast<size_t>(call_.tokens); ++t) {
      std::vector<std::pair<std::pair<float, ExpertId>, size_t>> order;
      for (size_t i = t * k; i < (t + 1) * k; ++i)
        order.push_back({{call_.weights[i], -call_.experts[i]}, i});  // ties go to the higher id
      std::sort(order.begin(), order.end());
      for (size_t i = 0; i < static_cast<size_t>(deferred_); ++i) light[order[i].second] = true;
    }
    return light;
  }

  // The sums over only the deferred entries, or over only the others.
  std::vector<float> Sums(const std::vector<bool>& light, bool wanted) const {
    std::vector<ExpertId> experts(call_.experts.begin(), call_.experts.end());
    for (size_t i = 0; i < experts.size(); ++i) {
      if (light[i] != wanted) experts[i] = kNoExpert;
    }
    std::vector<float> sums(call_.hidden.size()), part(call_.hidden.size());
    for (LayerExecutor* executor : executors_) {
      const absl::Status done = executor->Execute({.layer = call_.layer,
                                                   .tokens = call_.tokens,
                                                   .experts_per_token = call_.experts_per_token,
                                                   .batch_invariant = call_.batch_invariant,
                                                   .hidden = call_.hidden,
                                                   .experts = experts,
                                                   .weights = call_.weights},
                                                  absl::MakeSpan(part));
      NUMOE_CHECK(done.ok()) << done.ToString();
      AddTo(absl::MakeSpan(sums), part);
    }
    return sums;
  }

  const std::vector<LayerExecutor*> executors_;
  const LayerId last_layer_;
  int deferred_ = 0;
  LayerCallView call_;
  std::vector<float> late_;  // deferred sums of the layer before
};

}  // namespace numoe
