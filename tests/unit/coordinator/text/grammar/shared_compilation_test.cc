// The first error of a compilation, and the helper functions for its parts.
#include "coordinator/text/grammar/shared_compilation.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

using ::testing::HasSubstr;

class SharedCompilationTest : public ::testing::Test {
 protected:
  const nlohmann::ordered_json root_ = {{"minLength", 2}};
  const GrammarLimits limits_;
  Expressions expressions_;
  SharedCompilation shared_{root_, limits_, expressions_};
};

TEST_F(SharedCompilationTest, TheFirstErrorStays) {
  EXPECT_TRUE(shared_.ok());
  EXPECT_TRUE(expressions_.IsNever(shared_.Fail(absl::InvalidArgumentError("one"))));
  shared_.Fail(absl::InvalidArgumentError("two"));
  EXPECT_EQ(shared_.status(), absl::InvalidArgumentError("one"));
}

TEST_F(SharedCompilationTest, NothingIsReadAfterAnError) {
  SchemaFacts before, after;
  shared_.Absorb({shared_.reader().root()}, before);
  EXPECT_EQ(before.length_min, 2);
  shared_.Fail(absl::InvalidArgumentError("one"));
  shared_.Absorb({shared_.reader().root()}, after);
  EXPECT_EQ(after.length_min, 0);
}

TEST_F(SharedCompilationTest, TooLargeMinimaFailWithTheirPlace) {
  EXPECT_EQ(shared_.Least(1'000'000, "#/a"), 1'000'000);
  EXPECT_TRUE(shared_.ok());
  EXPECT_EQ(shared_.Least(1'000'001, "#/b"), 1'000'000);
  EXPECT_THAT(shared_.status().message(), HasSubstr("#/b: no text matches: no context holds the 1000001"));
}

TEST_F(SharedCompilationTest, TooLargeMaximaAreUnbounded) {
  EXPECT_EQ(SharedCompilation::Greatest(1'000'000, kCountMax), 1'000'000);
  EXPECT_EQ(SharedCompilation::Greatest(1'000'001, kCountMax), kUnbounded);
  EXPECT_EQ(SharedCompilation::Greatest(kNoMaximum, kCharactersMax), kUnbounded);
}

TEST_F(SharedCompilationTest, LargeItemsOfCountedRepetitionsBecomeRules) {
  const ExprId item = expressions_.Literal("x");
  for (const auto& [min, max] :
       std::vector<std::pair<int64_t, int64_t>>{{0, kNoMaximum}, {1, kNoMaximum}, {0, 1}, {1, 1}})
    EXPECT_EQ(shared_.CountedItem(item, min, max), item) << min << " " << max;
  for (const auto& [min, max] : std::vector<std::pair<int64_t, int64_t>>{{2, kNoMaximum}, {0, 2}, {0, 0}})
    EXPECT_NE(shared_.CountedItem(item, min, max), item) << min << " " << max;
}

}  // namespace
}  // namespace numoe::text::grammar
