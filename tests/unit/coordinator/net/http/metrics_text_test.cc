// The text of /metrics is as new as it can be, but for those who ask all the time.
#include "coordinator/net/http/metrics_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::net {
namespace {

using ::testing::HasSubstr;

TEST(MetricsTextTest, ItIsMadeSoOftenInAWindowAndNoMore) {
  Metrics metrics(MetricOwner::kCoordinator);
  MetricsText text(metrics);
  auto now = std::chrono::steady_clock::now();
  const auto cut = [&] {
    metrics.Add(CounterId::kHttpAnswersCut);
    return text.Get(now);
  };
  for (int i = 1; i <= MetricsText::kMadeMax; ++i)
    EXPECT_THAT(cut(), HasSubstr("numoe_http_answers_cut_total " + std::to_string(i) + "\n"));
  EXPECT_THAT(cut(), HasSubstr("numoe_http_answers_cut_total 10\n")) << "the last one again";
  now += MetricsText::kWindow;
  EXPECT_THAT(cut(), HasSubstr("numoe_http_answers_cut_total 12\n"));
}

}  // namespace
}  // namespace numoe::net
