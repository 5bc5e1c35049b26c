// Simulation: a scheduler with a scripted model in virtual time, with given arrivals, costs and outages.
//
// Single-threaded and deterministic: only steps and waits advance the clock. It records the tokens of every
// request, their times and its end; a second end, or an event after a cancellation, is a failure. Whenever
// the scheduler is idle, it checks its own invariants.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/engine/scheduler/scheduler.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/engine/scheduler/scripted_model.h"

namespace numoe::engine {

/// The time of a step, in seconds.
struct StepCost {
  double step = 0.040;
  double token = 0.001;     // for each new token
  double row = 0.00000001;  // for each cached row that a new token attends to
  double Of(const execution::StepBatch& batch) const {
    double seconds = step;
    for (const execution::StepSequence& s : batch.sequences) {
      const auto tokens = static_cast<double>(s.tokens.size());
      seconds += tokens * (token + row * (static_cast<double>(s.position) + tokens / 2));
    }
    return seconds;
  }
};

struct SimulatedRequest {
  double at_s = 0;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::string cache_salt = "";
  Tenant tenant;
  int priority = 0;
  double cancel_at_s = 1e18;
  double deadline_s = 1e18;  // since its arrival
  std::function<std::unique_ptr<execution::TokenConstraint>()> constraint = [] { return nullptr; };
};

struct SimulatedAnswer {
  std::vector<TokenId> tokens;
  std::vector<double> times_s;  // [tokens]
  std::vector<execution::TokenLogprobs> logprobs, prompt_logprobs;
  FinishReason finish = FinishReason::kNone;
  absl::Status error;
  double end_s = -1;
  int64_t cached_prompt_tokens = 0;
};

/// The times at which a worker is lost and comes back.
struct Outage {
  double from_s = 0, to_s = 0;
};

struct SimulationOptions {
  EngineOptions engine;
  StepCost cost;
  std::vector<Outage> outages;
  std::vector<double> resets_s;   // when the prefix cache is reset, ascending
  std::vector<double> changes_s;  // when the workers' numeric formats change, ascending
  bool device_draws = false;      // the device draws most tokens
  TokenId nan_token = -1;         // rows in which this token is the likeliest contain NaN
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options),
        model_(*this, options.engine.kv_blocks, options.engine.limits.block_tokens),
        scheduler_(model_, backend_, WithClock(options.engine), metrics_) {
    model_.scripted_.draws_ = options.device_draws;
    model_.scripted_.nan_token_ = options.nan_token;
  }

  /// Runs all requests to their ends and returns the answers. `requests` are in order of arrival.
  std::vector<SimulatedAnswer> Run(const std::vector<SimulatedRequest>& requests) {
    requests_ = &requests;
    answers_.assign(requests.size(), {});
    size_t next = 0, reset = 0;
    for (int turns = 0;; ++turns) {
      if (turns > kTurnsMax) {
        ADD_FAILURE() << "requests have not ended after " << turns << " turns";
        return answers_;
      }
      if (scheduler_.idle()) {
        scheduler_.CheckIdle();
        if (next == requests.size()) return answers_;
        now_s_ = std::max(now_s_, requests[next].at_s);
      }
      for (; reset < options_.resets_s.size() && options_.resets_s[reset] <= now_s_; ++reset)
        scheduler_.ResetPrefixCache("");
      for (; next < requests.size() && requests[next].at_s <= now_s_; ++next) Submit(next);
      Cancel(next);
      scheduler_.Turn();
    }
  }

  EngineStats Stats() const { return scheduler_.Stats(); }
  std::string MetricsText() { return metrics_.Serialise(); }
  double now_s() const { return now_s_; }
  int largest_batch() const { return model_.scripted_.largest_batch_; }
  int rows_drawn() const { return model_.scripted_.rows_drawn_; }

 private:
  static constexpr int kTurnsMax = 2'000'000;

  class TimedModel final : public execution::Model {
   public:
    TimedModel(Simulation& simulation, int blocks, int block_tokens)
        : scripted_(blocks, block_tokens), simulation_(simulation) {}
    absl::StatusOr<execution::StepLogits> Forward(const execution::StepBatch& batch) override {
      const double begin = simulation_.now_s_;
      simulation_.now_s_ += simulation_.options_.cost.Of(batch);
      if (simulation_.IsLost(begin, simulation_.now_s_)) return absl::UnavailableError("simulated loss");
      return scripted_.Forward(batch);
    }
    bool CanDraw() const override { return scripted_.CanDraw(); }
    const ModelConfig& config() const override { return scripted_.config(); }
    int64_t KvBytesPerToken() const override { return scripted_.KvBytesPerToken(); }
    ScriptedModel scripted_;

   private:
    Simulation& simulation_;
  };

  class Backend final : public execution::ExpertBackend {
   public:
    explicit Backend(Simulation& simulation) : simulation_(simulation) {}
    absl::Status Start(const LayerCallView&) override { return absl::OkStatus(); }
    absl::Status Finish(absl::Span<float>) override { return absl::OkStatus(); }
    bool ConsumeFormatChange() override {
      const std::vector<double>& changes = simulation_.options_.changes_s;
      const size_t before = changed_;
      while (changed_ < changes.size() && changes[changed_] <= simulation_.now_s_) ++changed_;
      return changed_ > before;
    }
    absl::Status AwaitReady(int64_t deadline_ms) override {
      if (Ready()) return absl::OkStatus();
      simulation_.now_s_ += static_cast<double>(deadline_ms) / 1e3;
      return absl::DeadlineExceededError("the worker is still lost");
    }
    bool Ready() const override { return !simulation_.IsLost(simulation_.now_s_, simulation_.now_s_); }

   private:
    Simulation& simulation_;
    size_t changed_ = 0;
  };

  bool IsLost(double begin, double end) const {
    return std::any_of(options_.outages.begin(), options_.outages.end(),
                       [&](const Outage& o) { return o.from_s <= end && begin < o.to_s; });
  }

  static EngineClock::time_point At(double seconds) {
    return EngineClock::time_point(
        std::chrono::duration_cast<EngineClock::duration>(std::chrono::duration<double>(seconds)));
  }
  EngineOptions WithClock(EngineOptions options) {
    options.now = [this] { return At(now_s_); };
    return options;
  }

  void Submit(size_t i) {
    const SimulatedRequest& r = (*requests_)[i];
    EngineRequest request{.prompt = r.prompt,
                          .cache_salt = r.cache_salt,
                          .sampling = r.sampling,
                          .constraint = r.constraint(),
                          .on_event = [this, i](const TokenEvent& event) { OnEvent(i, event); },
                          .tenant = r.tenant,
                          .priority = r.priority};
    if (r.deadline_s < 1e9) request.deadline = At(r.at_s + r.deadline_s);
    absl::StatusOr<SequencePtr> s = MakeSequence(std::move(request), scheduler_.sequence_limits());
    ASSERT_TRUE(s.ok()) << s.status();
    (*s)->id = static_cast<SequenceId>(i) + 1;
    (*s)->seed = r.sampling.seed.value_or(0);
    (*s)->arrived = At(r.at_s);
    scheduler_.Add(*std::move(s));
  }

  void Cancel(size_t submitted) {
    absl::flat_hash_set<SequenceId> cancelled;
    for (size_t i = 0; i < submitted; ++i) {
      SimulatedAnswer& answer = answers_[i];
      if (answer.finish != FinishReason::kNone || (*requests_)[i].cancel_at_s > now_s_) continue;
      cancelled.insert(static_cast<SequenceId>(i) + 1);
      answer.finish = FinishReason::kCancelled;
      answer.end_s = now_s_;
    }
    scheduler_.Cancel(cancelled);
  }

  void OnEvent(size_t i, const TokenEvent& event) {
    SimulatedAnswer& answer = answers_[i];
    EXPECT_EQ(answer.finish, FinishReason::kNone) << "request " << i << ": an event after its end";
    EXPECT_EQ(event.sequence, static_cast<SequenceId>(i) + 1);
    EXPECT_TRUE(answer.tokens.empty() || event.prompt_logprobs.empty());
    answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
    answer.times_s.resize(answer.tokens.size(), now_s_);
    answer.logprobs.insert(answer.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
    if (!event.prompt_logprobs.empty()) answer.prompt_logprobs = event.prompt_logprobs;
    answer.finish = event.finish;
    answer.error = event.error;
    answer.cached_prompt_tokens = event.cached_prompt_tokens;
    if (event.finish != FinishReason::kNone) answer.end_s = now_s_;
  }

  const SimulationOptions options_;
  double now_s_ = 0;
  const std::vector<SimulatedRequest>* requests_ = nullptr;
  std::vector<SimulatedAnswer> answers_;
  Metrics metrics_{MetricOwner::kCoordinator};
  Backend backend_{*this};
  TimedModel model_;
  Scheduler scheduler_;
};

}  // namespace numoe::engine
