#include "coordinator/execution/device/step_clock.h"

#include <map>
#include <thread>

#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

struct Recorder {
  std::map<StepPart, int> reports;
  std::map<StepPart, double> seconds;
  StepClock::Observer Observe() {
    return [this](StepPart part, double s) {
      ++reports[part];
      seconds[part] += s;
    };
  }
};

void Spend() { std::this_thread::sleep_for(std::chrono::milliseconds(3)); }

TEST(StepClockTest, TheTimesOfAPartAreAddedAndReportedOnce) {
  Recorder r;
  StepClock clock(r.Observe());
  const auto begin = std::chrono::steady_clock::now();
  for (int layer = 0; layer < 2; ++layer) {
    clock.Enter(StepPart::kAttentionLinear);
    Spend();
    clock.Enter(StepPart::kAttentionCore);
    clock.Enter(StepPart::kAttentionLinear);
    Spend();
  }
  EXPECT_TRUE(r.reports.empty()) << "reported before the step ended";
  clock.EndStep();
  const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_EQ(r.reports,
            (std::map<StepPart, int>{{StepPart::kAttentionLinear, 1}, {StepPart::kAttentionCore, 1}}));
  EXPECT_GE(r.seconds[StepPart::kAttentionLinear], 0.012);
  EXPECT_LE(r.seconds[StepPart::kAttentionLinear] + r.seconds[StepPart::kAttentionCore], all);
}

TEST(StepClockTest, TimeBetweenStepsBelongsToNoPart) {
  Recorder r;
  StepClock clock(r.Observe());
  clock.Enter(StepPart::kHead);
  clock.EndStep();
  const double first = r.seconds[StepPart::kHead];
  Spend();
  clock.EndStep();  // nothing ran
  EXPECT_EQ(r.reports[StepPart::kHead], 1);
  clock.Enter(StepPart::kEmbed);
  clock.EndStep();
  EXPECT_EQ(r.seconds[StepPart::kHead], first);
  EXPECT_EQ(r.reports, (std::map<StepPart, int>{{StepPart::kHead, 1}, {StepPart::kEmbed, 1}}));
}

TEST(StepClockTest, WithoutAnObserverNothingHappens) {
  StepClock clock(nullptr);
  clock.Enter(StepPart::kEmbed);
  clock.EndStep();
}

TEST(StepClockTest, EveryPartHasItsName) {
  EXPECT_EQ(kStepPartNames[static_cast<size_t>(StepPart::kEmbed)], "embed");
  EXPECT_EQ(kStepPartNames[static_cast<size_t>(StepPart::kAttentionCore)], "attention_core");
  EXPECT_EQ(kStepPartNames[static_cast<size_t>(StepPart::kHead)], "head");
}

}  // namespace
}  // namespace numoe::execution
