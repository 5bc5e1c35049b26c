// What is said of measured fetching, and what is decided.
#include "coordinator/startup/prompt_fetching.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::startup {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PlanFetchingTest, PromptsComeWhereTheWorkersWouldTakeLonger) {
  const execution::WorkerPace pace{.call_s = 1e-3, .token_s = 1e-4};
  const FetchingPlan plan = PlanFetching(pace, 11e-3, 2048);
  EXPECT_EQ(plan.tokens, execution::ChooseFetchThreshold(pace, 11e-3));
  EXPECT_LE(plan.tokens, 2048);
  EXPECT_THAT(plan.ToString(), AllOf(HasSubstr("11.0 ms"), HasSubstr("1.00 ms plus 100.0 us for each token"),
                                     HasSubstr("prompts of " + std::to_string(plan.tokens) +
                                               " tokens and more are computed")));
}

TEST(PlanFetchingTest, WhereNoStepIsLongEnoughThatIsSaid) {
  const FetchingPlan plan = PlanFetching({.call_s = 1e-3, .token_s = 1e-6}, 1, 2048);
  EXPECT_GT(plan.tokens, 2048);
  EXPECT_THAT(plan.ToString(),
              AllOf(HasSubstr("prompts stay with the workers"), HasSubstr("(--max-num-batched-tokens)")));
}

}  // namespace
}  // namespace numoe::startup
