// deploy/metrics.md is what metric_list.h says. After a change of the list:
//   NUMOE_WRITE_METRICS=deploy/metrics.md build/release/tests/metric_reference_test
#include "common/observe/metric_reference.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

TEST(MetricReferenceTest, HasEveryKindOfMetric) {
  const std::string text = MetricReference();
  EXPECT_THAT(text,
              HasSubstr("| `numoe_steps_total` | counter | coordinator |  | Model steps completed |\n"));
  EXPECT_THAT(text, HasSubstr("| `numoe_build_info` | gauge | all | version,isa |"));
  EXPECT_THAT(text, HasSubstr("| `numoe_expert_call_duration_seconds` | histogram | worker |  |"));
  EXPECT_THAT(text, HasSubstr("| `vllm:request_success_total` | `numoe_requests_finished_total` | reason is "
                              "finished_reason |\n"));
}

TEST(MetricReferenceTest, IsTheDocument) {
  if (const char* path = std::getenv("NUMOE_WRITE_METRICS")) std::ofstream(path) << MetricReference();
  std::ifstream file("deploy/metrics.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), MetricReference()) << "run with NUMOE_WRITE_METRICS=deploy/metrics.md";
}

}  // namespace
}  // namespace numoe
