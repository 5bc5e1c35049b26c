// The counts of several workers are merged, depending on how the experts are sliced, and written as JSON
// without the dense layers.
#include "coordinator/execution/transport/expert_rows.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

using ::testing::ElementsAre;

ExpertRows Counts(std::vector<uint64_t> rows) { return {.layers = 2, .experts = 3, .rows = std::move(rows)}; }

TEST(MergeExpertRowsTest, CountsOfWholeExpertsAreAdded) {
  ExpertRows all;
  MergeExpertRows(Counts({0, 0, 0, 7, 0, 9}), /*slice_by_expert=*/true, all);
  MergeExpertRows(Counts({0, 0, 0, 0, 4, 0}), /*slice_by_expert=*/true, all);
  EXPECT_EQ(all.layers, 2);
  EXPECT_EQ(all.experts, 3);
  EXPECT_THAT(all.rows, ElementsAre(0, 0, 0, 7, 4, 9));
}

TEST(MergeExpertRowsTest, SlicesOfAnExpertCountTheSameRows) {
  ExpertRows all;
  MergeExpertRows(Counts({0, 0, 0, 2, 1, 0}), /*slice_by_expert=*/false, all);  // restarted a while ago
  MergeExpertRows(Counts({0, 0, 0, 7, 4, 9}), /*slice_by_expert=*/false, all);
  EXPECT_THAT(all.rows, ElementsAre(0, 0, 0, 7, 4, 9));
}

TEST(ExpertRowsJsonTest, ContainsTheLayersWithExperts) {
  const ExpertRows rows = Counts({0, 0, 0, 7, 4, 18446744073709551615u});
  EXPECT_EQ(ExpertRowsJson(rows, {false, true}),
            R"({"layers":[{"layer":1,"rows":[7,4,18446744073709551615]}]})");
  EXPECT_EQ(ExpertRowsJson(rows, {true, true}),
            R"({"layers":[{"layer":0,"rows":[0,0,0]},{"layer":1,"rows":[7,4,18446744073709551615]}]})");
  EXPECT_EQ(ExpertRowsJson(rows, {false, false}), R"({"layers":[]})");
}

}  // namespace
}  // namespace numoe::execution
