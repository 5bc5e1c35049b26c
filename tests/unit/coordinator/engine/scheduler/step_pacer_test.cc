// The pacer on simulated machines: mixed steps stay within the stretch, prompts are finished, and the
// estimates follow a machine that changes.
#include "coordinator/engine/scheduler/step_pacer.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

struct Machine {
  double plain = 0.050;   // seconds of a step that only decodes
  double token = 0.0004;  // seconds for each prompt token
  double first = 0.0;     // seconds if a step has any prompt tokens: experts that only they need
  double noise = 0.0;     // relative
};

// Runs `steps` steps with an endless prompt; returns the seconds of each mixed step, and the number of
// computed prompt tokens.
std::pair<std::vector<double>, int> Simulate(StepPacer& pacer, const Machine& machine, int steps,
                                             std::mt19937& random) {
  std::uniform_real_distribution<double> noise(1 - machine.noise, 1 + machine.noise);
  std::vector<double> mixed;
  int done = 0;
  for (int i = 0; i < steps; ++i) {
    const int tokens = pacer.PromptTokens(4, 2048);
    const double seconds =
        (machine.plain + (tokens > 0 ? machine.first : 0) + machine.token * tokens) * noise(random);
    pacer.Record(4, tokens, seconds);
    if (tokens > 0) mixed.push_back(seconds);
    done += tokens;
  }
  return {mixed, done};
}

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

TEST(StepPacerTest, MixedStepsStayWithinTheStretch) {
  std::mt19937 random(3);
  for (const Machine& machine : {Machine{}, Machine{.plain = 0.005, .token = 0.00001}, Machine{.first = 0.02},
                                 Machine{.plain = 0.2, .token = 0.01}}) {
    StepPacer pacer(2.0);
    const auto [mixed, done] = Simulate(pacer, machine, 2000, random);
    EXPECT_LE(Percentile(mixed, 0.99), 2.02 * machine.plain);
    // It also uses its budget: at least half of the tokens of a step that is exactly twice as long.
    const double fits = (machine.plain - machine.first) / machine.token;
    EXPECT_GT(done, 0.5 * 2000 * std::min(fits, 2048.0));
  }
}

TEST(StepPacerTest, EstimatesFollowNoiseAndChanges) {
  std::mt19937 random(4);
  StepPacer pacer(2.0);
  Simulate(pacer, {.noise = 0.1}, 1000, random);
  Simulate(pacer, {.token = 0.004, .noise = 0.1}, 100,
           random);  // ten times the cost: adapts in 100 steps
  const auto [mixed, done] = Simulate(pacer, {.token = 0.004, .noise = 0.1}, 1000, random);
  EXPECT_LE(Percentile(mixed, 0.95), 2.3 * 0.050);
  EXPECT_GT(done, 1000 * 5);
}

TEST(StepPacerTest, APromptThatCostsTooMuchStillAdvances) {
  std::mt19937 random(5);
  StepPacer pacer(2.0);
  const auto [mixed, done] = Simulate(pacer, {.plain = 0.01, .token = 0.1}, 500, random);
  EXPECT_GE(done, 450 * 8);
}

TEST(StepPacerTest, WithoutDecodingOrWithoutALimitAllPromptTokensAreAllowed) {
  StepPacer pacer(2.0), unlimited(0);
  EXPECT_EQ(pacer.PromptTokens(0, 2048), 2048);
  EXPECT_EQ(unlimited.PromptTokens(7, 2048), 2048);
  EXPECT_EQ(pacer.PromptTokens(1, 2048), 0) << "a plain step is measured first";
}

}  // namespace
}  // namespace numoe::engine
