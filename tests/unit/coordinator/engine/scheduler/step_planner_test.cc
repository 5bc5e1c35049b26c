// The planner's invariants (coordinator/engine/scheduler/CONTRACT.md) in random states: a plan uses only
// blocks that exist, the limits hold, decoding comes before prompts, every step advances a sequence, and only
// later sequences are preempted.
#include "coordinator/engine/scheduler/step_planner.h"

#include <algorithm>
#include <map>
#include <random>

#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

struct State {
  std::vector<SequenceView> running, waiting;
  int free_blocks = 0;
  PlannerLimits limits;
};

// The waiting sequences of a tenant, in order.
std::vector<size_t> LineOf(const State& state, int tenant) {
  std::vector<size_t> line;
  for (size_t i = 0; i < state.waiting.size(); ++i) {
    if (state.waiting[i].tenant == tenant) line.push_back(i);
  }
  return line;
}

StepPlan PlanFor(const State& state, FairShares shares = {}) {
  std::map<int, int> weights;
  TenantLines lines;
  for (const SequenceView& s : state.running) weights.emplace(s.tenant, 1);
  for (const SequenceView& s : state.waiting) {
    weights.emplace(s.tenant, 1);
    ++lines[s.tenant].requests;
  }
  shares.SetActive(weights);
  const auto view = [&](int tenant, int i) {
    return state.waiting[LineOf(state, tenant)[static_cast<size_t>(i)]];
  };
  return PlanNextStep(state.running, {.lines = lines, .view = view}, state.free_blocks, state.limits, shares);
}

// Returns the sequences that a plan admits, in order.
std::vector<size_t> Admitted(const State& state, const StepPlan& plan) {
  std::map<int, size_t> taken;
  std::vector<size_t> admitted;
  for (const int tenant : plan.admitted) admitted.push_back(LineOf(state, tenant).at(taken[tenant]++));
  return admitted;
}

int64_t Blocks(int64_t tokens, const PlannerLimits& limits) {
  return (tokens + limits.block_tokens - 1) / limits.block_tokens;
}

// Returns a state that the engine can be in: every sequence could run alone in the cache.
State RandomState(std::mt19937& random) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  State state{
      .limits = {.sequences_max = 1 + below(8), .step_tokens = 8 + below(40), .block_tokens = 1 + below(8)}};
  const int total = 10 + below(60);
  const int tenants = 1 + below(3);
  int64_t used = 0;
  const auto view = [&](bool running) {
    SequenceView s{.tokens = 1 + below(std::max(1, (total - 1) * state.limits.block_tokens / 2)),
                   .cached = 0};
    if (running) s.cached = below(3) == 0 ? below(static_cast<int>(s.tokens)) : s.tokens - 1;
    s.blocks = static_cast<int>(Blocks(s.cached, state.limits));
    s.tenant = below(tenants);
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
  ASSERT_LE(plan.admitted.size(), state.waiting.size());
  std::vector<SequenceView> sequences = state.running;
  for (const size_t i : Admitted(state, plan)) sequences.push_back(state.waiting[i]);
  int64_t free_blocks = state.free_blocks;
  std::vector<bool> preempted(sequences.size());
  for (const int index : plan.preempted) {
    ASSERT_TRUE(index > 0 && index < static_cast<int>(state.running.size()))
        << "the oldest sequence must not be preempted";
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
    EXPECT_FALSE(has_part[index]) << "a sequence has two parts";
    has_part[index] = true;
    ASSERT_TRUE(part.tokens >= 1 && s.cached + part.tokens <= s.tokens);
    const bool decode = s.tokens - s.cached == 1;
    EXPECT_FALSE(decode && prompts && index < state.running.size())
        << "a decode part comes after a prompt chunk";
    prompts |= !decode;
    tokens += part.tokens;
    free_blocks -= std::max<int64_t>(0, Blocks(s.cached + part.tokens, state.limits) - s.blocks);
  }
  EXPECT_LE(tokens, state.limits.step_tokens);
  EXPECT_GE(free_blocks, 0) << "the plan uses more blocks than there are";
  EXPECT_TRUE(std::is_sorted(plan.preempted.rbegin(), plan.preempted.rend()))
      << "the youngest are preempted first";
  EXPECT_TRUE(plan.preempted.empty() || plan.admitted.empty())
      << "a sequence is admitted while another is preempted";
  EXPECT_TRUE(sequences.empty() || !plan.parts.empty()) << "no sequence advances";
  EXPECT_TRUE(!sequences.empty() || state.waiting.empty()) << "an idle engine admits no sequence";
}

TEST(StepPlannerTest, InvariantsHoldInRandomStates) {
  std::mt19937 random(11);
  int preempting = 0, admitting = 0;
  for (int round = 0; round < 50'000; ++round) {
    const State state = RandomState(random);
    const StepPlan plan = PlanFor(state);
    CheckPlan(state, plan);
    if (HasFailure()) FAIL() << "round " << round << ": " << plan.ToString();
    preempting += plan.preempted.empty() ? 0 : 1;
    admitting += plan.admitted.empty() ? 0 : 1;
  }
  EXPECT_GT(preempting, 100);
  EXPECT_GT(admitting, 1000);
}

// Executes plans until no sequence is left, as scheduler.cc does.
class Simulation {
 public:
  explicit Simulation(std::mt19937& random) {
    const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
    state_.limits = {
        .sequences_max = 1 + below(6), .step_tokens = 8 + below(24), .block_tokens = 1 + below(6)};
    if (below(2) == 0) state_.limits.fixed_chunk_tokens = 1 + below(state_.limits.step_tokens - 6);
    total_ = state_.free_blocks = 4 + below(20);
    const int tenants = 1 + below(3);
    for (int i = 1 + below(10); i > 0; --i) {
      // Submit's rule: prompt and output together fit into the cache, with the block that admission requires.
      const int fits = (total_ - 1) * state_.limits.block_tokens;
      const int prompt = 1 + below(fits);
      state_.waiting.push_back({.tokens = prompt, .tenant = below(tenants)});
      waiting_ends_.push_back(prompt + 1 + below(std::max(1, fits - prompt)));
    }
  }

  bool Done() const { return state_.running.empty() && state_.waiting.empty(); }
  int preempted() const { return preempted_; }
  int free_blocks_missing() const { return total_ - state_.free_blocks; }

  void Step() {
    const StepPlan plan = PlanFor(state_, shares_);
    CheckPlan(state_, plan);
    // In states that occur in service, every preemption advances an older sequence in the same step.
    for (const int index : plan.preempted) {
      EXPECT_TRUE(std::any_of(plan.parts.begin(), plan.parts.end(),
                              [&](const PlannedPart& part) { return part.sequence < index; }))
          << "preempted in vain: " << plan.ToString();
    }
    const std::vector<size_t> admitted = Admitted(state_, plan);
    for (const size_t i : admitted) {
      state_.running.push_back(state_.waiting[i]);
      ends_.push_back(waiting_ends_[i]);
    }
    for (size_t i = state_.waiting.size(); i-- > 0;) {
      if (std::find(admitted.begin(), admitted.end(), i) == admitted.end()) continue;
      state_.waiting.erase(state_.waiting.begin() + static_cast<int64_t>(i));
      waiting_ends_.erase(waiting_ends_.begin() + static_cast<int64_t>(i));
    }
    for (const PlannedPart& part : plan.parts) {
      SequenceView& s = state_.running[static_cast<size_t>(part.sequence)];
      s.cached += part.tokens;
      shares_.Charge(s.tenant, /*weight=*/1, part.tokens);
      const int blocks = static_cast<int>(Blocks(s.cached, state_.limits));
      state_.free_blocks -= blocks - s.blocks;
      s.blocks = blocks;
      if (s.cached == s.tokens) ++s.tokens;  // a sampled token
    }
    // Youngest first, so that the oldest of them ends up at the head of the queue.
    for (const int index : plan.preempted) {
      const auto i = static_cast<size_t>(index);
      state_.waiting.insert(state_.waiting.begin(),
                            {.tokens = state_.running[i].tokens, .tenant = state_.running[i].tenant});
      waiting_ends_.insert(waiting_ends_.begin(), ends_[i]);
      Remove(i);
      ++preempted_;
    }
    for (size_t i = state_.running.size(); i-- > 0;) {
      if (state_.running[i].tokens >= ends_[i]) Remove(i);
    }
  }

 private:
  void Remove(size_t i) {
    state_.free_blocks += state_.running[i].blocks;
    state_.running.erase(state_.running.begin() + static_cast<int64_t>(i));
    ends_.erase(ends_.begin() + static_cast<int64_t>(i));
  }

  State state_;
  FairShares shares_;
  int total_ = 0;
  std::vector<int64_t> ends_, waiting_ends_;  // tokens at which a sequence ends; parallel to running, waiting
  int preempted_ = 0;
};

TEST(StepPlannerTest, EverySequenceFinishesHoweverSmallTheCache) {
  std::mt19937 random(12);
  int preempted = 0;
  for (int round = 0; round < 3'000; ++round) {
    Simulation simulation(random);
    // 10 sequences of at most 22 * 6 tokens, each restarted at most once for every older one.
    int steps_left = 10 * 10 * 22 * 6;
    while (!simulation.Done() && --steps_left > 0 && !HasFailure()) simulation.Step();
    ASSERT_FALSE(HasFailure()) << "round " << round;
    ASSERT_TRUE(simulation.Done()) << "round " << round << ": a sequence never finishes";
    ASSERT_EQ(simulation.free_blocks_missing(), 0) << "round " << round;
    preempted += simulation.preempted();
  }
  EXPECT_GT(preempted, 1000);
}

TEST(StepPlannerTest, APromptGetsTheTokensThatDecodingLeaves) {
  const StepPlan plan = PlanFor({.running = {{.tokens = 9, .cached = 8, .blocks = 2}},
                                 .waiting = {{.tokens = 100}},
                                 .free_blocks = 100,
                                 .limits = {.sequences_max = 4, .step_tokens = 16, .block_tokens = 4}});
  ASSERT_EQ(plan.parts.size(), 2u);
  EXPECT_EQ(plan.admitted, std::vector<int>{0});
  EXPECT_EQ(plan.parts[0].tokens, 1);
  EXPECT_EQ(plan.parts[1].tokens, 15);
}

// A lost step leaves blocks for more tokens than the next plan gives the sequence.
TEST(StepPlannerTest, BlocksThatASequenceAlreadyHoldsAreNotGivenToOthers) {
  const StepPlan plan =
      PlanFor({.running = {{.tokens = 100, .blocks = 10, .prompt_logits = true}, {.tokens = 20}},
               .free_blocks = 0,
               .limits = {.step_tokens = 64, .block_tokens = 4, .prompt_logit_rows = 8}});
  ASSERT_EQ(plan.parts.size(), 1u) << plan.ToString();
  EXPECT_EQ(plan.parts[0].tokens, 8);
}

TEST(StepPlannerTest, AdmissionLeavesRoomToGrow) {
  const auto admitted = [](int free_blocks, int64_t tokens_max) {
    return PlanFor({.running = {{.tokens = 9, .tokens_max = tokens_max, .cached = 8, .blocks = 3}},
                    .waiting = {{.tokens = 7}},
                    .free_blocks = free_blocks,
                    .limits = {.step_tokens = 64, .block_tokens = 4, .growth_tokens = 32}})
        .admitted.size();
  };
  EXPECT_EQ(admitted(9, 1000), 0u) << "it needs 2 blocks for the prompt and its first token, and 8 to grow";
  EXPECT_EQ(admitted(10, 1000), 1u);
  EXPECT_EQ(admitted(2, 12), 1u) << "a sequence that ends within its blocks does not grow";
}

TEST(StepPlannerTest, FixedChunksDoNotDependOnTheLoad) {
  const PlannerLimits limits{
      .sequences_max = 4, .step_tokens = 16, .block_tokens = 4, .fixed_chunk_tokens = 8};
  const std::vector<SequenceView> prompt = {{.tokens = 100}};
  const StepPlan alone = PlanFor({.waiting = prompt, .free_blocks = 100, .limits = limits});
  const StepPlan beside = PlanFor({.running = {{.tokens = 9, .cached = 8, .blocks = 2}},
                                   .waiting = prompt,
                                   .free_blocks = 100,
                                   .limits = limits});
  ASSERT_EQ(alone.parts.size(), 1u);
  ASSERT_EQ(beside.parts.size(), 2u);
  EXPECT_EQ(alone.parts[0].tokens % 8, 0);
  EXPECT_EQ(beside.parts[1].tokens, 8);
}

// Tenants take turns in getting a step's tokens, whatever the order of the running sequences.
TEST(StepPlannerTest, TenantsShareAStepsPrompts) {
  const PlannerLimits limits{.sequences_max = 8, .step_tokens = 1024, .block_tokens = 16};
  const State state{.running = {{.tokens = 9000, .blocks = 0, .tenant = 1}},
                    .waiting = {{.tokens = 9000, .tenant = 1}, {.tokens = 200, .tenant = 2}},
                    .free_blocks = 5000,
                    .limits = limits};
  const StepPlan plan = PlanFor(state);
  EXPECT_EQ(plan.admitted, std::vector<int>{2}) << "the first sequence of tenant 1 takes all its tokens";
  ASSERT_EQ(plan.parts.size(), 2u) << plan.ToString();
  EXPECT_EQ(plan.parts[1].tokens, 200);
  EXPECT_EQ(plan.parts[0].tokens, 1024 - 200) << "a tenant gets the tokens that the other cannot use";
}

// Only sequences that need the probabilities of their prompts need rows of logits for them.
TEST(StepPlannerTest, UsedUpRowsOfLogitsStopNoOtherTenant) {
  const State state{
      .running = {{.tokens = 500, .prompt_logits = true, .tenant = 1}},
      .waiting = {{.tokens = 20, .prompt_logits = true, .tenant = 1}, {.tokens = 30, .tenant = 2}},
      .free_blocks = 1000,
      .limits = {.sequences_max = 8, .step_tokens = 1024, .block_tokens = 16, .prompt_logit_rows = 64}};
  EXPECT_EQ(PlanFor(state).admitted, std::vector<int>{2});
}

TEST(StepPlannerTest, TheLastSlotIsForATenantWithoutARunningSequence) {
  State state{
      .running = {{.tokens = 50, .cached = 49, .blocks = 4, .tenant = 1}},
      .waiting = {{.tokens = 20, .tenant = 1}, {.tokens = 20, .tenant = 1}, {.tokens = 30, .tenant = 2}},
      .free_blocks = 1000,
      .limits = {.sequences_max = 2, .step_tokens = 1024, .block_tokens = 16}};
  FairShares owing;  // tenant 2 used more than its part of earlier rounds
  owing.SetActive({{1, 1}, {2, 1}});
  owing.Charge(2, 1, 10 * limits::kFairQuantumTokens);
  EXPECT_EQ(PlanFor(state, owing).admitted, std::vector<int>{2});
  state.limits.sequences_max = 3;
  EXPECT_EQ(PlanFor(state, owing).admitted, (std::vector<int>{1, 2}));
  state.waiting.pop_back();
  EXPECT_EQ(PlanFor(state).admitted, (std::vector<int>{1, 1}))
      << "if no other tenant waits, it gets all slots";
}

// A waiting sequence that does not fit is not overtaken for ever by smaller sequences of other tenants.
TEST(StepPlannerTest, NoTenantOvertakesOneWhoseFirstSequenceDoesNotFit) {
  State state{.waiting = {{.tokens = 400, .tenant = 1}, {.tokens = 8, .tenant = 2}},
              .free_blocks = 20,
              .limits = {.sequences_max = 8, .step_tokens = 1024, .block_tokens = 16}};
  EXPECT_TRUE(PlanFor(state).admitted.empty());
  state.free_blocks = 27;
  EXPECT_EQ(PlanFor(state).admitted, (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace numoe::engine
