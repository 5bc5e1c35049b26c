// OpenMetrics: the exact text of each kind of metric, and exemplars in the buckets that they belong to.
#include "common/observe/open_metrics.h"

#include <cmath>
#include <limits>

#include "common/observe/metrics.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(OpenMetricsTest, CountersAndGauges) {
  prometheus::MetricFamily counter{"numoe_x_total", "of \"x\"\nand \\", prometheus::MetricType::Counter, {}};
  counter.metric.emplace_back().counter.value = 3;
  counter.metric.emplace_back().label = {{"path", "a\"\\\n"}};
  prometheus::MetricFamily gauge{"numoe_y", "y", prometheus::MetricType::Gauge, {}};
  for (const double value : {0.25, 1e300, std::nan(""), kInfinity, -kInfinity})
    gauge.metric.emplace_back().gauge.value = value;
  EXPECT_EQ(ToOpenMetrics({counter, gauge}, {}),
            "# TYPE numoe_x counter\n# HELP numoe_x of \\\"x\\\"\\nand \\\\\n"
            "numoe_x_total 3\nnumoe_x_total{path=\"a\\\"\\\\\\n\"} 0\n"
            "# TYPE numoe_y gauge\n# HELP numoe_y y\n"
            "numoe_y 0.25\nnumoe_y 1e+300\nnumoe_y NaN\nnumoe_y +Inf\nnumoe_y -Inf\n# EOF\n");
}

TEST(OpenMetricsTest, HistogramsHaveTheExemplarsOfTheirBuckets) {
  prometheus::MetricFamily family{"numoe_z_seconds", "z", prometheus::MetricType::Histogram, {}};
  prometheus::ClientMetric& plain = family.metric.emplace_back();
  plain.histogram = {.sample_count = 3,
                     .sample_sum = 4.5,
                     .bucket = {{.cumulative_count = 1, .upper_bound = 1e-05},
                                {.cumulative_count = 2, .upper_bound = 1},
                                {.cumulative_count = 3, .upper_bound = kInfinity}}};
  prometheus::ClientMetric& labelled = family.metric.emplace_back(plain);
  labelled.label = {{"worker", "w"}};
  Exemplars exemplars;
  const std::chrono::system_clock::time_point at{std::chrono::milliseconds(1'700'000'000'250)};
  for (const char* trace : {"old", "t1"}) exemplars.Add("numoe_z_seconds", {1e-05, 1}, {trace, 1, at});
  exemplars.Add("numoe_z_seconds", {1e-05, 1}, {"t2", 3.5, at});
  EXPECT_EQ(ToOpenMetrics({family}, exemplars),
            "# TYPE numoe_z_seconds histogram\n# HELP numoe_z_seconds z\n"
            "numoe_z_seconds_bucket{le=\"1e-05\"} 1\n"
            "numoe_z_seconds_bucket{le=\"1.0\"} 2 # {trace_id=\"t1\"} 1 1700000000.250\n"
            "numoe_z_seconds_bucket{le=\"+Inf\"} 3 # {trace_id=\"t2\"} 3.5 1700000000.250\n"
            "numoe_z_seconds_sum 4.5\nnumoe_z_seconds_count 3\n"
            "numoe_z_seconds_bucket{worker=\"w\",le=\"1e-05\"} 1\n"
            "numoe_z_seconds_bucket{worker=\"w\",le=\"1.0\"} 2\n"
            "numoe_z_seconds_bucket{worker=\"w\",le=\"+Inf\"} 3\n"
            "numoe_z_seconds_sum{worker=\"w\"} 4.5\nnumoe_z_seconds_count{worker=\"w\"} 3\n# EOF\n");
  EXPECT_THAT(exemplars.Of("another"), IsEmpty());
}

TEST(OpenMetricsTest, ADaemonsMetricsInBothFormats) {
  Metrics metrics(MetricOwner::kCoordinator);
  metrics.ServeAliases("kimi");
  metrics.Observe(HistogramId::kTimeToFirstToken, 0.04);
  metrics.AddExemplar(HistogramId::kTimeToFirstToken, 0.04, "0af7651916cd43dd8448eb211c80319c");
  const std::string open = metrics.SerialiseOpenMetrics();
  EXPECT_THAT(open, HasSubstr("# TYPE numoe_steps counter\n"));
  EXPECT_THAT(open, HasSubstr("\nnumoe_steps_total 0\n"));
  EXPECT_THAT(open, HasSubstr("numoe_time_to_first_token_seconds_bucket{le=\"0.05\"} 1 # "
                              "{trace_id=\"0af7651916cd43dd8448eb211c80319c\"} 0.04 "));
  EXPECT_THAT(open, HasSubstr("# TYPE vllm:generation_tokens counter\n"));
  EXPECT_THAT(open, EndsWith("\n# EOF\n"));
  const std::string text = metrics.Serialise();
  EXPECT_THAT(text, HasSubstr("# TYPE numoe_steps_total counter\n"));
  EXPECT_THAT(text, Not(HasSubstr("trace_id")));
  EXPECT_THAT(text, Not(HasSubstr("# EOF")));
}

}  // namespace
}  // namespace numoe
