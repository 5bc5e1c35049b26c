#include "coordinator/clients/serving_load/load_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace numoe::clients {
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

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Returns the positions of a series' markers, the legend's first; without std::regex, for which gcc 12 warns
// under ASan.
std::vector<std::pair<double, double>> Markers(const std::string& svg, const std::string& series) {
  std::vector<std::pair<double, double>> places;
  const std::string marker = "class=\"" + series + "-mark\" ";
  for (size_t at = svg.find(marker); at != std::string::npos; at = svg.find(marker, at + 1)) {
    const size_t x = svg.find("x=\"", at) + 3, y = svg.find("y=\"", at) + 3;
    places.emplace_back(std::stod(svg.substr(x)), std::stod(svg.substr(y)));
  }
  return places;
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
  const auto places = Markers(svg, "median");
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

TEST(LoadPlot, PointsAreInsideThePanel) {
  std::vector<LoadPoint> points;
  for (int i = 1; i < 30; ++i) points.push_back(Point(std::to_string(i), 7.3 * i, 3.0 * i * i, 1.1 * i));
  const std::string svg = DrawLoadPlot("m", "", points);
  for (const char* series : {"median", "p95", "p99"}) {
    const auto places = Markers(svg, series);
    EXPECT_EQ(places.size(), 2 * points.size() + 1);
    for (const auto& [x, y] : places) {
      EXPECT_GE(x, 88);
      EXPECT_LE(x, 930);
      EXPECT_GE(y, 70);
      EXPECT_LE(y, 735);
    }
  }
}

TEST(LoadPlot, TextIsEscaped) {
  EXPECT_THAT(DrawLoadPlot("<b>&", "a\nb", {Point("<x>", 1, 1, 1)}),
              testing::AllOf(HasSubstr("&lt;b>&amp;"), HasSubstr(">a b<"), HasSubstr("&lt;x>"),
                             Not(HasSubstr("<b>"))));
}

}  // namespace
}  // namespace numoe::clients
