// The text of /metrics is up to date, unless a client asks for it very often.
#include "coordinator/net/http/metrics_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::net {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(MetricsTextTest, TheTextIsMadeALimitedNumberOfTimesInAWindow) {
  Metrics metrics(MetricOwner::kCoordinator);
  MetricsText text(metrics);
  auto now = std::chrono::steady_clock::now();
  const auto cut = [&] {
    metrics.Add(CounterId::kHttpAnswersCut);
    return text.Get({}, now).body;
  };
  for (int i = 1; i <= MetricsText::kMadeMax; ++i)
    EXPECT_THAT(cut(), HasSubstr("numoe_http_answers_cut_total " + std::to_string(i) + "\n"));
  EXPECT_THAT(cut(), HasSubstr("numoe_http_answers_cut_total 10\n")) << "the last text is returned again";
  const MetricsAnswer other = text.Get({.open_metrics = true}, now);
  EXPECT_THAT(other.body, HasSubstr("numoe_http_answers_cut_total 11\n"))
      << "there is no text of this format yet";
  EXPECT_EQ(text.Get({.open_metrics = true}, now).body, other.body);
  now += MetricsText::kWindow;
  EXPECT_THAT(cut(), HasSubstr("numoe_http_answers_cut_total 12\n"));
}

TEST(MetricsTextTest, TheReplyHasItsTypeAndEncoding) {
  const Metrics metrics(MetricOwner::kRouter);
  MetricsText text(metrics);
  const HttpReply plain = text.ReplyTo({});
  EXPECT_EQ(plain.type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(plain.headers, ElementsAre(Pair("Vary", "Accept, Accept-Encoding")));
  const HttpReply packed = text.ReplyTo(
      {.headers = {{"accept", "application/openmetrics-text"}, {"accept-encoding", "gzip"}}, .body = ""});
  EXPECT_EQ(packed.type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_THAT(packed.headers, Contains(Pair("Content-Encoding", "gzip")));
  EXPECT_NE(packed.body, plain.body);
}

}  // namespace
}  // namespace numoe::net
