// Tests which form of latent attention is chosen, and that adjacent runs share a product.
#include "coordinator/execution/device/cpu/latent_plan.h"

#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

constexpr LatentShape kK2 = {.heads = 64, .nope = 128, .rope = 64, .value = 128, .latent = 512, .threads = 4};

LatentPlan PlanFor(int position, int tokens, const LatentShape& shape = kK2) {
  StepLayout layout;
  for (int t = 0; t < tokens; ++t) {
    layout.tokens.push_back(0);
    layout.positions.push_back(position + t);
    layout.sequences.push_back(0);
  }
  return PlanLatent(layout, shape);
}

TEST(LatentPlanTest, DecodingIsAbsorbedAndPromptsAreExpanded) {
  for (const int position : {0, 1, 500, 100000}) {
    EXPECT_TRUE(PlanFor(position, 1).expanded.tasks.empty()) << position;
    EXPECT_FALSE(PlanFor(position, 1).absorbed.tasks.empty());
  }
  EXPECT_TRUE(PlanFor(0, 512).absorbed.tasks.empty());
  EXPECT_FALSE(PlanFor(0, 512).expanded.tasks.empty());
  // With a long context, expansion needs fewer operations for more than (nope + value) * latent / (2 latent -
  // nope - value) = 171 tokens.
  EXPECT_TRUE(PlanFor(100000, 160).expanded.tasks.empty());
  EXPECT_TRUE(PlanFor(100000, 180).absorbed.tasks.empty());
}

TEST(LatentPlanTest, ExactStepsAreAbsorbed) {
  LatentShape shape = kK2;
  shape.may_expand = false;
  EXPECT_TRUE(PlanFor(0, 512, shape).expanded.tasks.empty());
}

TEST(LatentPlanTest, AdjacentRunsAreAbsorbedTogether) {
  StepLayout layout;
  const auto add = [&](int sequence, int position, int tokens) {
    for (int t = 0; t < tokens; ++t) {
      layout.tokens.push_back(0);
      layout.positions.push_back(position + t);
      layout.sequences.push_back(sequence);
    }
  };
  add(0, 70, 1);
  add(1, 900, 1);
  add(2, 0, 300);
  add(3, 12, 1);
  const LatentPlan plan = PlanLatent(layout, kK2);
  ASSERT_EQ(plan.absorbed_tokens.size(), 2u);
  EXPECT_EQ(plan.absorbed_tokens[0].begin, 0);
  EXPECT_EQ(plan.absorbed_tokens[0].end, 2);
  EXPECT_EQ(plan.absorbed_tokens[1].begin, 302);
  EXPECT_EQ(plan.absorbed_tokens[1].end, 303);
  for (const AttendTask& task : plan.expanded.tasks) {
    EXPECT_GE(task.token_begin, 2);
    EXPECT_LE(task.token_end, 302);
    EXPECT_EQ(task.head_end, task.head_begin + 1);
  }
}

}  // namespace
}  // namespace numoe::execution
