// Names of other projects: the metric's values, under their name and with their labels.
#include "common/observe/metric_aliases.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> LabelsOf(const std::vector<prometheus::MetricFamily>& families,
                                  const std::string& name) {
  std::vector<std::string> labels;
  for (const prometheus::MetricFamily& family : families) {
    if (family.name != name) continue;
    for (const auto& label : family.metric.at(0).label) labels.push_back(label.name + "=" + label.value);
  }
  return labels;
}

TEST(MetricAliasesTest, LabelsAreRenamedAndTheModelsIsAdded) {
  prometheus::MetricFamily family{"numoe_kv_cache_info", "", prometheus::MetricType::Gauge, {}};
  family.metric.emplace_back().label = {
      {"block_size", "16"}, {"cache_dtype", "bf16"}, {"num_gpu_blocks", "7"}};
  std::vector<prometheus::MetricFamily> families = {family};
  AddAliases(families, "kimi");
  EXPECT_EQ(families.size(), 3u);
  EXPECT_THAT(
      LabelsOf(families, "vllm:cache_config_info"),
      ElementsAre("block_size=16", "cache_dtype=bf16", "num_gpu_blocks=7", "model_name=kimi", "engine=0"));
  EXPECT_THAT(LabelsOf(families, "sglang:cache_config_info"),
              ElementsAre("page_size=16", "cache_dtype=bf16", "num_pages=7", "model_name=kimi",
                          "engine_type=unified"));
}

TEST(MetricAliasesTest, AMetricWithoutAnAliasIsNotCopied) {
  std::vector<prometheus::MetricFamily> families = {{"numoe_threads", "", prometheus::MetricType::Gauge, {}}};
  AddAliases(families, "kimi");
  EXPECT_EQ(families.size(), 1u);
  EXPECT_THAT(LabelsOf(families, "vllm:num_requests_running"), IsEmpty());
}

}  // namespace
}  // namespace numoe
