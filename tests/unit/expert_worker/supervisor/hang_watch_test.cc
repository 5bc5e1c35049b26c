// Hung or slow: silence is what the supervisor itself has observed, and any sign of life ends it.
#include "expert_worker/supervisor/hang_watch.h"

#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

using std::chrono::milliseconds;
constexpr HangLimits kLimits{
    .serving = milliseconds(5'000), .loading = milliseconds(20'000), .check_interval = milliseconds(1'000)};
constexpr milliseconds kInterval{1'000};

// Returns the number of checks without a sign of life until it hangs.
int LooksUntilHung(HangWatch& watch, bool served, int64_t answers, uint64_t progress) {
  for (int looks = 1; looks < 1'000; ++looks)
    if (watch.Check(kInterval, served, answers, progress)) return looks;
  return -1;
}

TEST(HangWatchTest, SilenceEndsAfterTheDeadlineOfWhatItDid) {
  HangWatch loading(kLimits), serving(kLimits);
  EXPECT_EQ(LooksUntilHung(loading, false, 0, 0), 20);
  EXPECT_FALSE(serving.Check(kInterval, true, 1, 0));
  EXPECT_EQ(LooksUntilHung(serving, true, 1, 0), 5);
  EXPECT_EQ(serving.silence(), milliseconds(5'000));
}

TEST(HangWatchTest, ASlowLoadIsNotHungWhileItMoves) {
  HangWatch watch(kLimits);
  uint64_t bytes = 0;
  for (int look = 0; look < 1'000; ++look)
    EXPECT_FALSE(watch.Check(kInterval, false, 0, bytes += look % 19 == 0));
  EXPECT_GT(LooksUntilHung(watch, false, 0, bytes), 0);
}

TEST(HangWatchTest, AnAnswerNowAndThenIsEnough) {
  HangWatch watch(kLimits);
  int64_t answer = 1;
  for (int look = 0; look < 1'000; ++look)
    EXPECT_FALSE(watch.Check(kInterval, true, answer += look % 4 == 0, 7));
}

TEST(HangWatchTest, BeginningToServeIsASignOfLifeAndANewProcessStartsFromZero) {
  HangWatch watch(kLimits);
  for (int look = 0; look < 19; ++look) EXPECT_FALSE(watch.Check(kInterval, false, 0, 0));
  EXPECT_FALSE(watch.Check(kInterval, true, 0, 0));
  EXPECT_EQ(LooksUntilHung(watch, true, 0, 0), 5);
  watch.OnStart();
  EXPECT_EQ(LooksUntilHung(watch, false, 0, 0), 20);
}

TEST(HangWatchTest, APauseOfTheWholeMachineIsNotSilence) {
  HangWatch watch(kLimits);
  EXPECT_FALSE(watch.Check(kInterval, true, 1, 0));
  EXPECT_FALSE(watch.Check(milliseconds(3'600'000), true, 1, 0));
  EXPECT_EQ(watch.silence(), milliseconds(2'000));
}

}  // namespace
}  // namespace numoe::worker
