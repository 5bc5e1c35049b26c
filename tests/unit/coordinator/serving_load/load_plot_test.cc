#include "coordinator/serving_load/load_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace numoe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LoadPoint Point(const std::string& label, double tokens_per_s, double ttft, double tpot) {
  LoadPoint point{.label = label};
  point.report.duration_s = 10;
  point.report.total_output_tokens = static_cast<int64_t>(tokens_per_s * 10);
  point.report.ttft = {.median = ttft, .p95 = 2 * ttft, .p99 = 3 * ttft};
  point.report.tpot = {.median = tpot, .p95 = 1.5 * tpot, .p99 = 2 * tpot};
  return point;
}

size_t Count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

TEST(LoadPlot, EveryLoadIsAPointOfEverySeries) {
  const std::string svg = DrawLoadPlot(
      "model", "random",
      {Point("1 req/s", 50, 30, 11), Point("2 req/s", 100, 40, 12), Point("4 req/s", 180, 90, 20)});
  EXPECT_EQ(Count(svg, "<circle class=\"median-mark\""), 7u) << "3 in each panel, 1 in the legend";
  EXPECT_EQ(Count(svg, "<rect class=\"p99-mark\""), 7u);
  EXPECT_EQ(Count(svg, ">4 req/s</text>"), 2u);
  EXPECT_THAT(svg, HasSubstr("Output throughput (tokens/s)"));
  EXPECT_THAT(svg, HasSubstr("Time to first token (ms)<"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, Not(HasSubstr("log scale")));
}

TEST(LoadPlot, SlowerIsHigherAndMoreIsFurtherRight) {
  const std::string svg = DrawLoadPlot("m", "", {Point("a", 10, 100, 1), Point("b", 30, 200, 1)});
  const std::regex circle("<circle class=\"median-mark\" cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"");
  std::vector<std::pair<double, double>> places;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), circle); it != std::sregex_iterator(); ++it)
    places.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
  ASSERT_EQ(places.size(), 5u);
  EXPECT_LT(places[1].first, places[2].first);
  EXPECT_GT(places[1].second, places[2].second);
}

TEST(LoadPlot, WideRangesAreLogarithmic) {
  const std::string svg = DrawLoadPlot("m", "", {Point("a", 10, 20, 5), Point("b", 30, 9000, 6)});
  EXPECT_THAT(svg, HasSubstr("Time to first token (ms), log scale"));
  EXPECT_THAT(svg, HasSubstr(">10,000<"));
  EXPECT_THAT(svg, HasSubstr("Time per output token (ms)<"));
}

TEST(LoadPlot, ThousandsAreSeparated) {
  const std::string svg = DrawLoadPlot("m", "", {Point("a", 1'150, 2'400'000, 1)});
  EXPECT_THAT(svg, HasSubstr(">1,000<"));
  EXPECT_THAT(svg, HasSubstr(">1,200<"));
  EXPECT_THAT(svg, HasSubstr(">4,000,000<"));
}

TEST(LoadPlot, OddValuesStillDraw) {
  for (const LoadPoint& point :
       {Point("nothing", 0, 0, 0), Point("tiny", 1e-6, 1e-9, 1e-9), Point("huge", 1e12, 1e9, 1e9)}) {
    const std::string svg = DrawLoadPlot("m", "", {point});
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
    EXPECT_LT(svg.size(), 100'000u);
  }
}

TEST(LoadPlot, PointsOutsideThePanelDoNotExist) {
  std::vector<LoadPoint> points;
  for (int i = 1; i < 30; ++i) points.push_back(Point(std::to_string(i), 7.3 * i, 3.0 * i * i, 1.1 * i));
  const std::string svg = DrawLoadPlot("m", "", points);
  const std::regex place("class=\"(?:median|p95|p99)-mark\" (?:cx|x)=\"([0-9.-]+)\" (?:cy|y)=\"([0-9.-]+)\"");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), place); it != std::sregex_iterator(); ++it) {
    EXPECT_GE(std::stod((*it)[1]), 88);
    EXPECT_LE(std::stod((*it)[1]), 930);
    EXPECT_GE(std::stod((*it)[2]), 70);
    EXPECT_LE(std::stod((*it)[2]), 735);
  }
}

TEST(LoadPlot, TextIsEscaped) {
  EXPECT_THAT(DrawLoadPlot("<b>&", "a\nb", {Point("<x>", 1, 1, 1)}),
              testing::AllOf(HasSubstr("&lt;b>&amp;"), HasSubstr(">a b<"), HasSubstr("&lt;x>"),
                             Not(HasSubstr("<b>"))));
}

}  // namespace
}  // namespace numoe
