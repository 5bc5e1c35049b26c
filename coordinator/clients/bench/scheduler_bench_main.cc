// numoe-scheduler-bench: measures what a step costs without the model.
//
// It runs the scheduler with a model that takes no time and has a vocabulary of 16, and times whole turns:
// planning, block tables, the step's batch, sampling from 16 logits, publishing prefixes, metrics, sending
// tokens to requests. It prints one JSON line for each load. Times are CPU time of this thread, which other
// load on the machine hardly changes. The scheduler's clock counts its own calls, so that every run makes the
// same decisions.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/flags.h"
#include "coordinator/engine/scheduler/scheduler.h"
#include "coordinator/engine/scheduler/scheduler_limits.h"
#include "coordinator/execution/device/kv_block.h"

namespace numoe::clients {
namespace {

constexpr int kVocab = 16, kBestToken = 7;
static_assert(kBestToken < kVocab);
constexpr int kStepTokens = 8192;

double Now() {  // microseconds
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

double Percentile(std::vector<double>& values, double share) {
  NUMOE_CHECK(!values.empty() && 0 <= share && share <= 1);
  const auto place = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place), values.end());
  return values[place];
}

// A model that takes no time and gives kBestToken the largest logit.
class IdleModel final : public execution::Model {
 public:
  explicit IdleModel(int rows_max) : logits_(static_cast<size_t>(rows_max) * kVocab, 0.0f) {
    for (size_t i = kBestToken; i < logits_.size(); i += kVocab) logits_[i] = 1;
  }
  absl::StatusOr<execution::StepLogits> Forward(const execution::StepBatch& batch) override {
    int rows = 0;
    for (const execution::StepSequence& s : batch.sequences) rows += s.logits_last;
    const auto values = static_cast<size_t>(rows) * kVocab;
    NUMOE_CHECK_LE(values, logits_.size());
    return execution::StepLogits{rows, kVocab, absl::MakeConstSpan(logits_).subspan(0, values)};
  }
  const ModelConfig& config() const override { return config_; }
  int64_t KvBytesPerToken() const override { return 1; }

 private:
  std::vector<float> logits_;
  ModelConfig config_;
};

class NoExperts final : public execution::ExpertBackend {
 public:
  absl::Status Start(const LayerCallView&) override { return absl::OkStatus(); }
  absl::Status Finish(absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status AwaitReady(int64_t) override { return absl::OkStatus(); }
  bool Ready() const override { return true; }
};

struct Load {
  std::string name;
  int running = 256;
  int waiting = 0;           // further sequences, which have to wait
  int prompt_tokens = 1024;  // of each sequence
  int kv_tokens = 1 << 20;
  bool asking = false;  // requests use penalties and log-probabilities
};

class SchedulerBench {
 public:
  explicit SchedulerBench(const Load& load)
      : load_(load),
        model_(2 * load.running + limits::kPromptLogitRowsMax),
        scheduler_(model_, experts_, Options(load), metrics_) {}

  void Run(int steps) {
    for (int i = 0; i < load_.running + load_.waiting; ++i) Submit();
    while (scheduler_.Stats().tokens_generated < static_cast<uint64_t>(load_.running)) scheduler_.Turn();
    std::vector<double> times;
    const uint64_t preempted = scheduler_.Stats().preemptions;
    for (int i = 0; i < steps; ++i) {
      const double began = Now();
      scheduler_.Turn();
      times.push_back(Now() - began);
    }
    const engine::EngineStats stats = scheduler_.Stats();
    NUMOE_CHECK_LE(stats.running, load_.running) << load_.name;
    const double p50 = Percentile(times, 0.5), p99 = Percentile(times, 0.99);
    std::printf("%s\n", fmt::format(R"({{"bench":"scheduler_step","load":"{}","running":{},"waiting":{},)"
                                    R"("preemptions":{},"steps":{},"p50_us":{:.1f},"p99_us":{:.1f}}})",
                                    load_.name, stats.running, stats.waiting, stats.preemptions - preempted,
                                    steps, p50, p99)
                            .c_str());
    scheduler_.CancelAll();
    scheduler_.CheckIdle();
  }

 private:
  engine::EngineOptions Options(const Load& load) {
    NUMOE_CHECK(load.kv_tokens % execution::kKvBlockTokens == 0 && load.running <= kStepTokens) << load.name;
    return {
        .limits = {.sequences_max = load.running, .step_tokens = kStepTokens},
        .kv_blocks = load.kv_tokens / execution::kKvBlockTokens,
        .max_model_len = 1 << 20,
        .vocab = kVocab,
        .now = [this] { return engine::EngineClock::time_point(std::chrono::microseconds(100 * ++ticks_)); }};
  }

  void Submit() {
    engine::EngineRequest request{
        .sampling = {.temperature = 0, .max_tokens = 100'000},
        .on_event = [this](const engine::TokenEvent& event) { tokens_ += event.tokens.size(); }};
    request.prompt.resize(static_cast<size_t>(load_.prompt_tokens));
    for (TokenId& t : request.prompt) t = static_cast<TokenId>(random_() % kVocab);
    if (load_.asking) {
      request.sampling.frequency_penalty = 0.001;
      request.sampling.logprobs = 5;
    }
    absl::StatusOr<engine::SequencePtr> s =
        engine::MakeSequence(std::move(request), scheduler_.sequence_limits());
    NUMOE_CHECK(s.ok()) << s.status().message();
    (*s)->id = ++last_id_;
    scheduler_.Add(*std::move(s));
  }

  const Load load_;
  int64_t ticks_ = 0;
  std::mt19937 random_{1};
  Metrics metrics_{MetricOwner::kCoordinator};
  NoExperts experts_;
  IdleModel model_;
  engine::Scheduler scheduler_;
  SequenceId last_id_ = 0;
  size_t tokens_ = 0;
};

}  // namespace
}  // namespace numoe::clients

int main(int argc, char** argv) {
  numoe::Flags flags("numoe-scheduler-bench",
                     "Measures how long the scheduler's steps take, with a model that takes no time.",
                     numoe::FlagSources::kCommandLine);
  int steps = 3000;
  flags.Add("steps", steps, "Steps to time for each load").Range(1, 1 << 24);
  if (const int code = flags.Parse(argc, argv); code >= 0) return code;
  for (const numoe::clients::Load& load :
       {numoe::clients::Load{.name = "decode", .running = 32}, numoe::clients::Load{.name = "decode"},
        numoe::clients::Load{.name = "decode", .running = 1024, .kv_tokens = 8 << 20},
        numoe::clients::Load{.name = "queue", .waiting = 256},
        numoe::clients::Load{.name = "long contexts", .prompt_tokens = 16'384, .kv_tokens = 10 << 20},
        numoe::clients::Load{.name = "full cache", .waiting = 64, .kv_tokens = 300'000},
        numoe::clients::Load{.name = "penalties, logprobs", .asking = true}})
    numoe::clients::SchedulerBench(load).Run(steps);
  return 0;
}
