// A daemon that loads ends at once when asked to; one that serves receives the signal where it waits for it.
#include "common/base/signals.h"

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(SignalsDeathTest, EndTheProcessOnlyWhileTheyAreDeadly) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          BlockSignals();
          const ScopedDeadlySignals deadly;
          kill(getpid(), signal);
          pause();
        },
        ::testing::ExitedWithCode(128 + signal), "");
    EXPECT_EXIT(
        {
          BlockSignals();
          { const ScopedDeadlySignals deadly; }
          kill(getpid(), signal);
          _exit(AwaitSignal() == signal ? 7 : 8);
        },
        ::testing::ExitedWithCode(7), "");
  }
}

// Like the threads that a daemon starts while it loads, and keeps.
TEST(SignalsDeathTest, ThreadsThatAreStartedMeanwhileBlockThem) {
  EXPECT_EXIT(
      {
        BlockSignals();
        std::thread thread;
        {
          const ScopedDeadlySignals deadly;
          thread = std::thread([] { pause(); });
        }
        kill(getpid(), SIGTERM);
        _exit(AwaitSignal() == SIGTERM ? 7 : 8);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace numoe
