// FormulaWorkers: real worker services that compute a formula, and a coordinator that is connected to them.
//
// Every slice, layer, expert and channel has a different value, so that a sum with a value that is added
// twice, left out or confused with another one is wrong. Calls are made as the model makes them. One thread.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/execution/transport/expert_fan_out.h"
#include "expert_worker/service/worker_service.h"
#include "gtest/gtest.h"

namespace numoe::execution {

// An executor with different results for every slice, layer, expert and channel.
class Formula final : public LayerExecutor {
 public:
  static constexpr int kHidden = 64;
  static constexpr int kDeferred = 1;  // deferred experts of a token in deferring calls
  // The layers whose deferred experts, or all experts, are not computed while the worker hangs.
  static constexpr int kDeferredHangs = 7, kHangs = 8;

  explicit Formula(int slice) : slice_(slice) {}
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    if (call.layer == 99) return absl::InvalidArgumentError("layer 99 does not exist");
    const bool deferred = call.layer == kDeferredHangs && call.experts_per_token == kDeferred;
    if (deferred || call.layer == kHangs) hang_.wait(true);
    std::fill(out.begin(), out.end(), 0.0f);
    for (int t = 0; t < call.tokens; ++t) {
      for (int k = 0; k < call.experts_per_token; ++k) {
        const int entry = t * call.experts_per_token + k;
        for (int c = 0; c < kHidden; ++c) {
          out[t * kHidden + c] += call.weights[entry] *
                                  std::sin(call.hidden[t * kHidden + c] *
                                           static_cast<float>(call.experts[entry] + 1 + slice_ + call.layer));
        }
      }
    }
    return absl::OkStatus();
  }
  void Hang() { hang_.store(true); }
  void Resume() {
    hang_.store(false);
    hang_.notify_all();
  }

 private:
  const int slice_;
  std::atomic<bool> hang_{false};
};

class FormulaWorkers : public ::testing::Test {
 protected:
  static constexpr int kHidden = Formula::kHidden;
  static constexpr int kDeferredHangs = Formula::kDeferredHangs, kHangs = Formula::kHangs;
  static constexpr int kDeferred = Formula::kDeferred;
  static constexpr int kPerToken = 3;  // experts of a token in deferring calls
  static constexpr int kExperts = 8;
  static constexpr uint64_t kFingerprint = 42;
  static constexpr int64_t kPatienceMs = 120'000;  // under TSan on a busy machine one call can take seconds

  std::unique_ptr<worker::WorkerService> Serve(int index, int count, const std::string& listen,
                                               uint64_t fingerprint = kFingerprint,
                                               const worker::ExpertStatistics* statistics = nullptr,
                                               bool slice_by_expert = false) {
    formulas_.push_back(std::make_unique<Formula>(index));
    auto service = worker::WorkerService::Start(*formulas_.back(), {.listen = listen,
                                                                    .model_fingerprint = fingerprint,
                                                                    .slice_by_expert = slice_by_expert,
                                                                    .worker_index = index,
                                                                    .worker_count = count,
                                                                    .hidden_size = kHidden,
                                                                    .num_experts = kExperts,
                                                                    .experts_per_token = 2,
                                                                    .description = "formula",
                                                                    .statistics = statistics});
    EXPECT_TRUE(service.ok()) << service.status();
    return service.ok() ? *std::move(service) : nullptr;
  }
  std::string Path(const std::string& name) const {
    return "unix:" + ::testing::TempDir() + "/formula-" + std::to_string(getpid()) + name;
  }
  absl::StatusOr<std::unique_ptr<ExpertFanOut>> Connect(std::vector<std::string> addresses, DataPath path,
                                                        int64_t start_deadline_ms = kPatienceMs,
                                                        int64_t call_deadline_ms = kPatienceMs) {
    return ExpertFanOut::Connect({.addresses = std::move(addresses),
                                  .link = {.data_path = path,
                                           .model_fingerprint = kFingerprint,
                                           .hidden_size = kHidden,
                                           .num_experts = kExperts,
                                           .call_deadline_ms = call_deadline_ms,
                                           .heartbeat_deadline_ms = kPatienceMs},
                                  .start_deadline_ms = start_deadline_ms},
                                 metrics_);
  }
  // Makes one call of `tokens` tokens; returns its sums or the error.
  absl::StatusOr<std::vector<float>> Call(ExpertBackend& backend, int tokens, int layer = 1) {
    hidden_.resize(static_cast<size_t>(tokens) * kHidden);
    for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] = std::sin(static_cast<float>(i));
    experts_.resize(static_cast<size_t>(tokens) * 2);
    weights_.resize(experts_.size());
    for (size_t i = 0; i < experts_.size(); ++i) {
      experts_[i] = static_cast<ExpertId>((i * 5 + i / 2) % kExperts);
      weights_[i] = 0.1f * static_cast<float>(i % 7 + 1);
    }
    std::vector<float> out(hidden_.size(), 0.5f);
    absl::Status status = backend.Start({.layer = layer,
                                         .tokens = tokens,
                                         .experts_per_token = 2,
                                         .hidden = hidden_,
                                         .experts = experts_,
                                         .weights = weights_});
    if (status.ok()) status = backend.Finish(absl::MakeSpan(out));
    if (!status.ok()) return status;
    return out;
  }

  // Makes a call with kPerToken experts, of which kDeferred are deferred.
  absl::Status StartDeferring(ExpertBackend& backend, int tokens, int layer = 1) {
    hidden_.resize(static_cast<size_t>(tokens) * kHidden);
    for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] = std::sin(static_cast<float>(i));
    experts_.resize(static_cast<size_t>(tokens) * kPerToken);
    weights_.resize(experts_.size());
    for (size_t i = 0; i < experts_.size(); ++i) {
      experts_[i] = static_cast<ExpertId>((i * 3 + i / 3) % kExperts);
      weights_[i] = 0.1f * static_cast<float>(i % 7 + 1);
    }
    return backend.Start({.layer = layer,
                          .tokens = tokens,
                          .experts_per_token = kPerToken,
                          .deferred_experts = kDeferred,
                          .hidden = hidden_,
                          .experts = experts_,
                          .weights = weights_});
  }
  // Returns both sums of such a call, one after the other.
  absl::StatusOr<std::vector<float>> CallDeferring(ExpertBackend& backend, int tokens, int layer = 1) {
    absl::Status status = StartDeferring(backend, tokens, layer);
    std::vector<float> both(2 * hidden_.size(), 0.5f);
    if (status.ok()) status = backend.Finish(absl::MakeSpan(both).subspan(0, hidden_.size()));
    // The call's spans already belong to the next layer.
    std::fill(hidden_.begin(), hidden_.end(), -1.0f);
    std::fill(weights_.begin(), weights_.end(), -1.0f);
    if (status.ok()) status = backend.FinishDeferred(absl::MakeSpan(both).subspan(hidden_.size()));
    if (!status.ok()) return status;
    return both;
  }

  Metrics metrics_{MetricOwner::kCoordinator};
  std::vector<std::unique_ptr<Formula>> formulas_;
  std::vector<float> hidden_, weights_;
  std::vector<ExpertId> experts_;
};

}  // namespace numoe::execution
