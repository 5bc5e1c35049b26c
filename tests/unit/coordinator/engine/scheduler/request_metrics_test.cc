// The sizes and times of ended answers in the metrics.
#include "coordinator/engine/scheduler/request_metrics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

using ::testing::HasSubstr;

Sequence OfThreeTokens() {
  EngineRequest request;
  request.prompt = {1, 2, 3};
  request.sampling.max_tokens = 100;
  return Sequence(std::move(request), {.tokens_max = 1000, .vocab = 10, .eos_token_ids = {}});
}

TEST(RequestMetricsTest, ACompleteAnswerHasAllSizesAndTimes) {
  Metrics metrics(MetricOwner::kCoordinator);
  Sequence s = OfThreeTokens();
  const auto at = [](int ms) { return std::chrono::steady_clock::time_point(std::chrono::milliseconds(ms)); };
  s.admitted = at(1000);
  s.first_token = at(3000);
  s.last_token = at(11'000);
  s.tokens.insert(s.tokens.end(), 5, 7);
  RecordAnswer(s, metrics);
  const std::string text = metrics.Serialise();
  for (const char* line : {"numoe_request_prompt_tokens_sum 3\n", "numoe_request_max_tokens_sum 100\n",
                           "numoe_request_generation_tokens_sum 5\n", "numoe_request_prefill_seconds_sum 2\n",
                           "numoe_request_decode_seconds_sum 8\n", "numoe_request_inference_seconds_sum 10\n",
                           "numoe_request_token_seconds_sum 2\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(RequestMetricsTest, AnAnswerOfOneTokenHasNoTimeBetweenTokensAndAnEmptyOneHasNoTimes) {
  Metrics metrics(MetricOwner::kCoordinator);
  Sequence s = OfThreeTokens();
  RecordAnswer(s, metrics);
  EXPECT_THAT(metrics.Serialise(), HasSubstr("numoe_request_prefill_seconds_count 0\n"));
  s.admitted = s.first_token = s.last_token = std::chrono::steady_clock::time_point(std::chrono::seconds(1));
  s.tokens.push_back(7);
  RecordAnswer(s, metrics);
  const std::string text = metrics.Serialise();
  EXPECT_THAT(text, HasSubstr("numoe_request_prefill_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("numoe_request_token_seconds_count 0\n"));
  EXPECT_THAT(text, HasSubstr("numoe_request_generation_tokens_count 2\n"));
}

}  // namespace
}  // namespace numoe::engine
