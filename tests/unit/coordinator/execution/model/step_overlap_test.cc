// Which steps are halved: as configured, or as measured. Here a test chooses the durations of measured steps.
#include "coordinator/execution/model/step_overlap.h"

#include <functional>

#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

using Duration = std::function<double(bool halves, int step)>;

// Runs steps of one size; returns how many of the last `of` were halved.
int HalvedOfTheLast(int of, StepOverlap& overlap, const StepSize& size, int steps, const Duration& seconds) {
  int halved = 0;
  for (int n = 0; n < steps; ++n) {
    const bool halves = overlap.Halve(size);
    overlap.Record(size, halves ? ExpertExecution::kHalves : ExpertExecution::kWhole, seconds(halves, n));
    halved += halves && n >= steps - of ? 1 : 0;
  }
  return halved;
}

constexpr StepSize kPrompt{.rows = 2048, .prompt = true};

TEST(PlanCutTest, HalvesAreAboutEqual) {
  EXPECT_EQ(PlanCut(2), 1);
  EXPECT_EQ(PlanCut(3), 1);
  EXPECT_EQ(PlanCut(15), 7);
  EXPECT_EQ(PlanCut(16), 8);
  EXPECT_EQ(PlanCut(2047), 1016);
  for (int rows = 2; rows < 300; ++rows) {
    const int cut = PlanCut(rows);
    EXPECT_GT(cut, 0);
    EXPECT_LE(cut, rows - cut);
    EXPECT_LE(rows - 2 * cut, 15) << rows;
  }
}

TEST(StepOverlapTest, TheConfiguredSizeDecides) {
  const StepOverlap off(kNoOverlap), from(100);
  EXPECT_FALSE(off.Halve(kPrompt));
  EXPECT_TRUE(from.Halve({.rows = 100}));
  EXPECT_TRUE(from.Halve(kPrompt));
  EXPECT_FALSE(from.Halve({.rows = 99, .prompt = true}));
  EXPECT_FALSE(from.Halve({.rows = 100, .defers = true})) << "steps that defer are whole";
}

TEST(StepOverlapTest, TheFasterAlternativeIsKept) {
  StepOverlap gains(kMeasuredOverlap), loses(kMeasuredOverlap), even(kMeasuredOverlap);
  const auto takes = [](double halves) { return [=](bool halved, int) { return halved ? halves : 1.0; }; };
  EXPECT_EQ(HalvedOfTheLast(100, gains, kPrompt, 200, takes(0.8)), 100);
  EXPECT_EQ(HalvedOfTheLast(100, loses, kPrompt, 200, takes(1.2)), 0);
  EXPECT_EQ(HalvedOfTheLast(100, even, kPrompt, 200, takes(0.99)), 0) << "noise must not decide";
}

// The chunks of a prompt take longer and longer, and one step is disturbed.
TEST(StepOverlapTest, NeitherDriftNorADisturbanceDecides) {
  for (const bool halves_gain : {false, true}) {
    const auto run = [&](double drift, int disturbed) {
      StepOverlap overlap(kMeasuredOverlap);
      const auto seconds = [&](bool halved, int n) {
        return (1 + drift * n) * (halved == halves_gain ? 0.9 : 1) * (n == disturbed ? 10 : 1);
      };
      return HalvedOfTheLast(50, overlap, kPrompt, kTrialSteps + 50, seconds);
    };
    EXPECT_EQ(run(/*drift=*/0.5, /*disturbed=*/-1), halves_gain ? 50 : 0);
    for (int n = 0; n < kTrialSteps; ++n) EXPECT_EQ(run(0.01, n), halves_gain ? 50 : 0) << n;
  }
}

TEST(StepOverlapTest, TheTrialIsRepeated) {
  StepOverlap overlap(kMeasuredOverlap);
  EXPECT_EQ(HalvedOfTheLast(1, overlap, kPrompt, kTrialSteps + 1, [](bool h, int) { return h ? 0.5 : 1; }),
            1);
  const Duration slower = [](bool halved, int) { return halved ? 2.0 : 1.0; };
  // The rest of the settled steps is halved, then half of a trial's steps, then none.
  EXPECT_EQ(HalvedOfTheLast(kSettledSteps + 300, overlap, kPrompt, kSettledSteps + 300, slower),
            kSettledSteps - 1 + kTrialSteps / 2);
}

TEST(StepOverlapTest, ClassesAreDecidedIndependently) {
  StepOverlap overlap(kMeasuredOverlap);
  const StepSize small{.rows = 600, .prompt = true}, single{.rows = 2048};
  EXPECT_EQ(HalvedOfTheLast(10, overlap, kPrompt, 20, [](bool h, int) { return h ? 0.5 : 1; }), 10);
  EXPECT_EQ(HalvedOfTheLast(10, overlap, small, 20, [](bool h, int) { return h ? 1.5 : 1; }), 0);
  EXPECT_EQ(HalvedOfTheLast(10, overlap, single, 20, [](bool h, int) { return h ? 1.5 : 1; }), 0);
  EXPECT_TRUE(overlap.Halve(kPrompt));
  EXPECT_TRUE(overlap.Halve({.rows = 1025, .prompt = true})) << "it is in the same class";
}

TEST(StepOverlapTest, SmallStepsAndStepsThatDeferAreNotMeasured) {
  StepOverlap overlap(kMeasuredOverlap);
  const Duration gains = [](bool halved, int) { return halved ? 0.5 : 1.0; };
  EXPECT_EQ(HalvedOfTheLast(50, overlap, {.rows = kMeasuredTokensMin - 1, .prompt = true}, 50, gains), 0);
  EXPECT_EQ(HalvedOfTheLast(50, overlap, {.rows = 2048, .defers = true}, 50, gains), 0);
  EXPECT_GT(HalvedOfTheLast(50, overlap, {.rows = kMeasuredTokensMin, .prompt = true}, 50, gains), 40);
}

// A step that fetches experts is not halved, and its time does not depend on the workers.
TEST(StepOverlapTest, FetchedStepsDoNotCount) {
  StepOverlap overlap(kMeasuredOverlap);
  for (int n = 0; n < 100; ++n) overlap.Record(kPrompt, ExpertExecution::kFetched, 0.001);
  EXPECT_EQ(HalvedOfTheLast(10, overlap, kPrompt, 20, [](bool h, int) { return h ? 0.5 : 1; }), 10);
}

}  // namespace
}  // namespace numoe::execution
