// The threshold is the number of tokens at which the workers take as long as the fetch. Also: the calls that
// measure the workers.
#include "coordinator/execution/model/fetch_threshold.h"

#include <climits>
#include <set>

#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

TEST(FetchThresholdTest, ItIsTheNumberOfTokensAtWhichTheWorkersTakeAsLongAsTheFetch) {
  const WorkerPace pace{.call_s = 0.002, .token_s = 0.0001};
  EXPECT_EQ(ChooseFetchThreshold(pace, 0.2020), 2000);
  EXPECT_EQ(ChooseFetchThreshold(pace, 0.2021), 2001);
  EXPECT_EQ(ChooseFetchThreshold(pace, 0.001), 2);
  EXPECT_EQ(ChooseFetchThreshold({.call_s = 0, .token_s = 1e-12}, 1), INT_MAX);
  EXPECT_EQ(ChooseFetchThreshold({}, 1), INT_MAX);
}

TEST(FetchThresholdTest, TwoCallsGiveThePace) {
  const WorkerPace pace = PaceOf(256, 0.030, 1024, 0.1068);
  EXPECT_NEAR(pace.token_s, 0.0001, 1e-9);
  EXPECT_NEAR(pace.call_s, 0.0044, 1e-9);
  const WorkerPace noisy = PaceOf(256, 0.030, 1024, 0.020);
  EXPECT_EQ(noisy.token_s, 0);
  EXPECT_EQ(ChooseFetchThreshold(noisy, 1), INT_MAX);
}

ModelConfig Config() {
  ModelConfig config;
  config.hidden_size = 16;
  config.num_experts = 7;
  config.experts_per_token = 3;
  config.layer_is_moe = {false, false, true, true};
  return config;
}

class Asked final : public ExpertBackend {
 public:
  absl::Status Start(const LayerCallView& call) override {
    layers.insert(call.layer);
    tokens.push_back(call.tokens);
    EXPECT_EQ(call.hidden.size(), static_cast<size_t>(call.tokens * Config().hidden_size));
    EXPECT_EQ(call.experts.size(), static_cast<size_t>(call.tokens * call.experts_per_token));
    EXPECT_EQ(call.weights.size(), call.experts.size());
    for (int t = 0; t < call.tokens; ++t) {
      const auto chosen = call.experts.subspan(static_cast<size_t>(t * call.experts_per_token),
                                               static_cast<size_t>(call.experts_per_token));
      EXPECT_EQ(std::set<ExpertId>(chosen.begin(), chosen.end()).size(), chosen.size());
      for (const ExpertId expert : chosen) EXPECT_TRUE(expert >= 0 && expert < 7);
    }
    return lost ? absl::UnavailableError("lost") : absl::OkStatus();
  }
  absl::Status Finish(absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status AwaitReady(int64_t) override { return absl::OkStatus(); }
  bool Ready() const override { return true; }

  bool lost = false;
  std::set<LayerId> layers;
  std::vector<int> tokens;
};

TEST(FetchThresholdTest, OneCallHasFewTokensAndTheOthersMany) {
  for (const int tokens_max : {1, 40, 8192}) {
    Asked workers;
    const auto pace = MeasureWorkerPace(workers, Config(), tokens_max);
    ASSERT_TRUE(pace.ok()) << pace.status();
    EXPECT_GE(pace->token_s, 0);
    EXPECT_EQ(workers.layers, std::set<LayerId>{2});
    ASSERT_EQ(workers.tokens.size(), 3u);
    EXPECT_EQ(workers.tokens[0], workers.tokens[2]);
    EXPECT_LT(workers.tokens[1], workers.tokens[2]);
    EXPECT_EQ(workers.tokens[2], std::max(2, std::min(tokens_max, 1024)));
  }
}

TEST(FetchThresholdTest, ALostWorkerIsAnError) {
  Asked workers;
  workers.lost = true;
  EXPECT_TRUE(absl::IsUnavailable(MeasureWorkerPace(workers, Config(), 64).status()));
  ModelConfig dense = Config();
  dense.layer_is_moe = {false};
  EXPECT_TRUE(absl::IsNotFound(MeasureWorkerPace(workers, dense, 64).status()));
}

}  // namespace
}  // namespace numoe::execution
