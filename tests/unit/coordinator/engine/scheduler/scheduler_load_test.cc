// Effects of load on throughput and on running streams, in virtual time: a cache that is too small, and a
// prompt that is far too long.
#include <algorithm>
#include <random>

#include "coordinator/execution/device/kv_block.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/engine/scheduler/simulation.h"

namespace numoe::engine {
namespace {

std::vector<TokenId> RandomPrompt(std::mt19937& random, size_t tokens) {
  std::vector<TokenId> prompt(tokens);
  for (TokenId& t : prompt) t = static_cast<TokenId>(random() % 90);
  return prompt;
}

SimulationOptions Options(int sequences_max, int kv_tokens, bool prefix_caching = true) {
  return {.engine = {.limits = {.sequences_max = sequences_max, .step_tokens = 2048},
                     .kv_blocks = kv_tokens / execution::kKvBlockTokens,
                     .max_model_len = 200'000,
                     .vocab = ScriptedModel::kVocab,
                     .prefix_caching = prefix_caching}};
}

struct Load {
  double tokens_per_s = 0;
  uint64_t preemptions = 0;
};

// All requests come at once: prompts of 500 and answers of 525 tokens on average.
Load Serve(int requests, const SimulationOptions& options) {
  std::mt19937 random(31);
  std::vector<SimulatedRequest> all;
  for (int i = 0; i < requests; ++i) {
    const std::vector<TokenId> prompt = RandomPrompt(random, 100 + random() % 800);
    all.push_back({.prompt = prompt,
                   .sampling = {.temperature = 0, .max_tokens = static_cast<int>(50 + random() % 950)}});
  }
  Simulation simulation(options);
  simulation.Run(all);
  return {static_cast<double>(simulation.Stats().tokens_generated) / simulation.now_s(),
          simulation.Stats().preemptions};
}

TEST(SchedulerLoadTest, HalfTheCacheLosesAtMostAFifthOfThroughput) {
  for (const bool prefix_caching : {true, false}) {
    const Load enough = Serve(200, Options(64, 64 * 1024, prefix_caching));
    const Load half = Serve(200, Options(64, 32 * 1024, prefix_caching));
    EXPECT_EQ(enough.preemptions, 0u);
    EXPECT_GE(half.tokens_per_s, 0.8 * enough.tokens_per_s) << half.preemptions << " preemptions";
  }
}

TEST(SchedulerLoadTest, MoreSequencesThanFitIntoTheCacheDoNotLowerThroughput) {
  const Load fitting = Serve(200, Options(32, 32 * 1024));
  for (const int sequences : {64, 128, 200}) {
    const Load beyond = Serve(200, Options(sequences, 32 * 1024));
    EXPECT_GE(beyond.tokens_per_s, fitting.tokens_per_s) << sequences << " sequences";
  }
}

// Returns the times between the tokens of all streams from `from_s` to `to_s`, sorted.
std::vector<double> Gaps(const std::vector<SimulatedAnswer>& answers, size_t streams, double from_s,
                         double to_s) {
  std::vector<double> gaps;
  for (size_t i = 0; i < streams; ++i) {
    const std::vector<double>& times = answers[i].times_s;
    for (size_t t = 1; t < times.size(); ++t) {
      if (times[t - 1] >= from_s && times[t] <= to_s) gaps.push_back(times[t] - times[t - 1]);
    }
  }
  std::sort(gaps.begin(), gaps.end());
  return gaps;
}

TEST(SchedulerLoadTest, ALongPromptDoesNotStopDecodingStreams) {
  constexpr size_t kStreams = 8;
  std::mt19937 random(32);
  std::vector<SimulatedRequest> requests;
  for (size_t i = 0; i < kStreams; ++i) {
    requests.push_back(
        {.prompt = RandomPrompt(random, 300), .sampling = {.temperature = 0, .max_tokens = 6'000}});
  }
  constexpr double kArrival = 60;
  requests.push_back({.at_s = kArrival,
                      .prompt = RandomPrompt(random, 100'000),
                      .sampling = {.temperature = 0, .max_tokens = 1}});
  Simulation simulation(Options(32, 400'000));
  const auto answers = simulation.Run(requests);
  const double end = answers[kStreams].end_s;
  const std::vector<double> before = Gaps(answers, kStreams, 10, kArrival);
  const std::vector<double> beside = Gaps(answers, kStreams, kArrival, end);
  ASSERT_GT(before.size(), 1000u);
  ASSERT_GT(beside.size(), 1000u);
  const auto p99 = [](const std::vector<double>& gaps) { return gaps[gaps.size() * 99 / 100]; };
  EXPECT_LE(p99(beside), 2 * p99(before));
  // The prompt is finished, too, with nearly half of the time. Alone it takes 152 s.
  EXPECT_LT(end - kArrival, 2.5 * 152);
}

}  // namespace
}  // namespace numoe::engine
