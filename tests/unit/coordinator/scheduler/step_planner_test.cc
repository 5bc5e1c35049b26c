// The planner's promises (coordinator/scheduler/CONTRACT.md) over random states: what a plan gives out
// exists, the limits hold, decoding comes before prompts, somebody moves in every step, only younger ones are
// preempted.
#include "coordinator/scheduler/step_planner.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace numoe {
namespace {

struct State {
  std::vector<SequenceView> running, waiting;
  int free_blocks = 0;
  PlannerLimits limits;
};

int64_t Blocks(int64_t tokens, const PlannerLimits& limits) {
  return (tokens + limits.block_tokens - 1) / limits.block_tokens;
}

// A state that the engine can be in: every sequence could run alone in the cache.
State RandomState(std::mt19937& random) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  State state{
      .limits = {.sequences_max = 1 + below(8), .step_tokens = 8 + below(40), .block_tokens = 1 + below(8)}};
  const int total = 10 + below(60);
  int64_t used = 0;
  const auto view = [&](bool running) {
    SequenceView s{.tokens = 1 + below(std::max(1, (total - 1) * state.limits.block_tokens / 2)),
                   .cached = 0};
    if (running) s.cached = below(3) == 0 ? below(static_cast<int>(s.tokens)) : s.tokens - 1;
    s.blocks = static_cast<int>(Blocks(s.cached, state.limits));
    return s;
  };
  for (int i = below(state.limits.sequences_max + 1); i > 0; --i) {
    const SequenceView s = view(true);
    if (used + s.blocks > total) break;
    used += s.blocks;
    state.running.push_back(s);
  }
  for (int i = below(6); i > 0; --i) state.waiting.push_back(view(false));
  state.free_blocks = static_cast<int>(total - used);
  return state;
}

void CheckPlan(const State& state, const StepPlan& plan) {
  ASSERT_LE(plan.admitted, static_cast<int>(state.waiting.size()));
  std::vector<SequenceView> sequences = state.running;
  sequences.insert(sequences.end(), state.waiting.begin(), state.waiting.begin() + plan.admitted);
  int64_t free_blocks = state.free_blocks;
  std::vector<bool> preempted(sequences.size());
  for (const int index : plan.preempted) {
    ASSERT_TRUE(index > 0 && index < static_cast<int>(state.running.size()))
        << "the oldest is never preempted";
    preempted[static_cast<size_t>(index)] = true;
    free_blocks += state.running[static_cast<size_t>(index)].blocks;
  }
  EXPECT_LE(static_cast<int>(sequences.size() - plan.preempted.size()), state.limits.sequences_max);
  int tokens = 0;
  bool prompts = false;
  std::vector<bool> has_part(sequences.size());
  for (const PlannedPart& part : plan.parts) {
    ASSERT_TRUE(part.sequence >= 0 && part.sequence < static_cast<int>(sequences.size()));
    const auto index = static_cast<size_t>(part.sequence);
    const SequenceView& s = sequences[index];
    EXPECT_FALSE(preempted[index]) << "a preempted sequence has a part";
    EXPECT_FALSE(has_part[index]) << "two parts of one sequence";
    has_part[index] = true;
    ASSERT_TRUE(part.tokens >= 1 && s.cached + part.tokens <= s.tokens);
    const bool decode = s.tokens - s.cached == 1;
    EXPECT_FALSE(decode && prompts && index < state.running.size()) << "a decode after a prompt chunk";
    prompts |= !decode;
    tokens += part.tokens;
    free_blocks -= std::max<int64_t>(0, Blocks(s.cached + part.tokens, state.limits) - s.blocks);
  }
  EXPECT_LE(tokens, state.limits.step_tokens);
  EXPECT_GE(free_blocks, 0) << "more blocks than there are";
  EXPECT_TRUE(sequences.empty() || !plan.parts.empty()) << "nothing moves";
  EXPECT_TRUE(!sequences.empty() || state.waiting.empty()) << "an idle engine admits nobody";
}

TEST(StepPlannerTest, PromisesHoldInRandomStates) {
  std::mt19937 random(11);
  int preempting = 0, admitting = 0;
  for (int round = 0; round < 50'000; ++round) {
    const State state = RandomState(random);
    const StepPlan plan = PlanNextStep(state.running, state.waiting, state.free_blocks, state.limits);
    CheckPlan(state, plan);
    if (HasFailure()) FAIL() << "round " << round << ": " << plan.ToString();
    preempting += plan.preempted.empty() ? 0 : 1;
    admitting += plan.admitted > 0 ? 1 : 0;
  }
  EXPECT_GT(preempting, 100);
  EXPECT_GT(admitting, 1000);
}

TEST(StepPlannerTest, APromptIsCutToWhatDecodingLeaves) {
  const StepPlan plan = PlanNextStep({{.tokens = 9, .cached = 8, .blocks = 2}}, {{.tokens = 100}}, 100,
                                     {.sequences_max = 4, .step_tokens = 16, .block_tokens = 4});
  ASSERT_EQ(plan.parts.size(), 2u);
  EXPECT_EQ(plan.admitted, 1);
  EXPECT_EQ(plan.parts[0].tokens, 1);
  EXPECT_EQ(plan.parts[1].tokens, 15);
}

TEST(StepPlannerTest, FixedChunksDoNotDependOnTheLoad) {
  const PlannerLimits limits{
      .sequences_max = 4, .step_tokens = 16, .block_tokens = 4, .fixed_chunk_tokens = 8};
  const StepPlan alone = PlanNextStep({}, {{.tokens = 100}}, 100, limits);
  const StepPlan beside =
      PlanNextStep({{.tokens = 9, .cached = 8, .blocks = 2}}, {{.tokens = 100}}, 100, limits);
  ASSERT_EQ(alone.parts.size(), 1u);
  ASSERT_EQ(beside.parts.size(), 2u);
  EXPECT_EQ(alone.parts[0].tokens % 8, 0);
  EXPECT_EQ(beside.parts[1].tokens, 8);
}

}  // namespace
}  // namespace numoe
