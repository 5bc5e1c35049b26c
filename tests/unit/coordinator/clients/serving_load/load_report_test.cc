#include "coordinator/clients/serving_load/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace numoe::clients {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// numpy has computed the expected values: np.percentile([1, 2, 3, 4, 10], p), np.std.
TEST(Spread, IsTheSameAsInNumpy) {
  const Spread spread = SpreadOf({10, 1, 3, 2, 4});
  EXPECT_DOUBLE_EQ(spread.mean, 4);
  EXPECT_DOUBLE_EQ(spread.median, 3);
  EXPECT_DOUBLE_EQ(spread.std, 3.1622776601683795);
  EXPECT_DOUBLE_EQ(spread.p90, 7.6);
  EXPECT_DOUBLE_EQ(spread.p95, 8.8);
  EXPECT_DOUBLE_EQ(spread.p99, 9.76);
  EXPECT_DOUBLE_EQ(spread.max, 10);
  EXPECT_DOUBLE_EQ(SpreadOf({4, 8}).median, 6);
  EXPECT_DOUBLE_EQ(SpreadOf({7}).p99, 7);
  EXPECT_DOUBLE_EQ(SpreadOf({}).mean, 0);
}

RequestResult Answered(double start, double ttft, std::vector<double> itls, int64_t output_tokens) {
  RequestResult request{.ok = true,
                        .start_s = start,
                        .ttft_s = ttft,
                        .latency_s = ttft,
                        .itls_s = std::move(itls),
                        .prompt_tokens = 10,
                        .output_tokens = output_tokens,
                        .has_usage = true};
  for (const double itl : request.itls_s) request.latency_s += itl;
  return request;
}

LoadResult TwoAnswersAndAFailure() {
  LoadResult result{.duration_s = 4, .arrival_delay_max_s = 0.002};
  result.requests = {
      Answered(0, 0.5, {0.1, 0.2, 0.2}, 4), Answered(1, 1, {1}, 9), {.error = "429: full", .start_s = 1.5}};
  return result;
}

TEST(LoadReport, CountsTheRequestsThatSucceeded) {
  const LoadReport report = Summarise(TwoAnswersAndAFailure());
  EXPECT_EQ(report.completed, 2);
  EXPECT_EQ(report.failed, 1);
  EXPECT_EQ(report.total_input_tokens, 20);
  EXPECT_EQ(report.total_output_tokens, 13);
  EXPECT_DOUBLE_EQ(report.PerSecond(report.total_output_tokens), 3.25);
  EXPECT_DOUBLE_EQ(report.ttft.mean, 750);
  EXPECT_NEAR(report.itl.mean, 375, 1e-9);
  EXPECT_DOUBLE_EQ(report.itl.max, 1000);
  EXPECT_NEAR(report.e2e.mean, 1500, 1e-9);
  // (1.0 - 0.5) / 3 and (2 - 1) / 8 seconds per token.
  EXPECT_NEAR(report.tpot.mean, (500.0 / 3 + 125) / 2, 1e-9);
  EXPECT_NEAR(report.concurrency, 3.0 / 4, 1e-9);
  EXPECT_DOUBLE_EQ(report.arrival_delay_max_ms, 2);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.errors[0], (std::pair<std::string, int64_t>("429: full", 1)));
}

TEST(LoadReport, OneTokenHasNoTimePerToken) {
  EXPECT_EQ(Summarise({.requests = {Answered(0, 1, {}, 1)}, .duration_s = 1}).tpot.mean, 0);
}

TEST(LoadReport, PeaksAreOfTheWholeRun) {
  // One request ends at the moment at which the next begins, so that never two run at once.
  EXPECT_EQ(Summarise({.requests = {Answered(0, 1, {}, 2), Answered(1, 1, {}, 2)}, .duration_s = 2})
                .max_concurrent_requests,
            1);
  LoadResult three{.requests = {Answered(0, 2, {}, 1), Answered(0.5, 1, {}, 1), Answered(1, 3, {}, 1)},
                   .duration_s = 4};
  EXPECT_EQ(Summarise(three).max_concurrent_requests, 3);
  // 8 tokens in 4 pieces, 2 each: three pieces in the first second, one in the third.
  EXPECT_DOUBLE_EQ(
      Summarise({.requests = {Answered(0, 0.1, {0.2, 0.2, 2}, 8)}, .duration_s = 3}).max_output_tokens_per_s,
      6);
}

TEST(LoadReport, JsonHasTheFieldsOfThePublicClients) {
  const auto json = ReportJson(Summarise(TwoAnswersAndAFailure()), {{"backend", "numoe"}});
  EXPECT_EQ(json.begin().key(), "backend");
  for (const char* field :
       {"duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput",
        "input_throughput", "output_throughput", "total_token_throughput", "max_itl_ms", "concurrency",
        "accept_length", "max_output_tokens_per_s", "max_concurrent_requests"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  for (const char* metric : {"e2e_latency", "ttft", "tpot", "itl"}) {
    for (const char* part : {"mean", "median", "std", "p90", "p95", "p99"})
      EXPECT_TRUE(json.contains(std::string(part) + "_" + metric + "_ms")) << part << metric;
  }
  EXPECT_EQ(json["output_tokens_counted_by"], "usage");
  EXPECT_DOUBLE_EQ(json["mean_ttft_ms"], 750);
}

TEST(LoadReport, DetailsHaveAnElementForEachRequest) {
  const auto details = DetailsJson(TwoAnswersAndAFailure());
  for (const auto& [name, values] : details.items()) EXPECT_EQ(values.size(), 3u) << name;
  EXPECT_EQ(details["output_lens"][2], 0);
  EXPECT_EQ(details["errors"][2], "429: full");
  EXPECT_EQ(details["itls"][0].size(), 3u);
}

TEST(LoadReport, TextNamesWhatIsMissing) {
  LoadResult result = TwoAnswersAndAFailure();
  EXPECT_THAT(ReportText(Summarise(result), {{"Backend:", "numoe"}}),
              testing::AllOf(HasSubstr("Backend:                                 numoe"),
                             HasSubstr("failed 1x: 429: full"),
                             HasSubstr("Median TTFT (ms):                        750.00"),
                             HasSubstr("Max ITL (ms):"), HasSubstr("Total generated tokens:")));
  result.requests[0].has_usage = false;
  EXPECT_THAT(ReportText(Summarise(result), {}), HasSubstr("Total generated pieces (no usage sent):"));
  result.requests.pop_back();
  EXPECT_THAT(ReportText(Summarise(result), {}), Not(HasSubstr("failed")));
}

}  // namespace
}  // namespace numoe::clients
