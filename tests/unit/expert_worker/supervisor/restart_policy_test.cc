// Restarts: a limited number before a worker was ever ready, and with growing, bounded delays afterwards.
#include "expert_worker/supervisor/restart_policy.h"

#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

using std::chrono::milliseconds;
constexpr RestartLimits kRestartLimits{.starts_max = 3,
                                       .delay_min = milliseconds(100),
                                       .delay_max = milliseconds(500),
                                       .settled = milliseconds(10'000)};

TEST(RestartPolicyTest, AWorkerThatNeverStartsIsGivenUp) {
  RestartPolicy policy(kRestartLimits);
  EXPECT_EQ(policy.OnEnd(std::nullopt), milliseconds(100));
  EXPECT_EQ(policy.OnEnd(std::nullopt), milliseconds(200));
  EXPECT_EQ(policy.OnEnd(std::nullopt), std::nullopt);
}

TEST(RestartPolicyTest, AWorkerThatWasReadyIsAlwaysRestarted) {
  RestartPolicy policy(kRestartLimits);
  for (const int expected : {100, 200, 400, 500, 500, 500, 500})
    EXPECT_EQ(policy.OnEnd(milliseconds(20)), milliseconds(expected));
}

TEST(RestartPolicyTest, HavingBeenReadyForgivesFailedStartsAndHavingLivedForgivesAll) {
  RestartPolicy policy(kRestartLimits);
  policy.OnEnd(std::nullopt);
  policy.OnEnd(std::nullopt);
  EXPECT_EQ(policy.OnEnd(milliseconds(20)), milliseconds(400));
  EXPECT_EQ(policy.OnEnd(milliseconds(20'000)), milliseconds(100));
  for (const int expected : {200, 400, 500, 500, 500, 500})
    EXPECT_EQ(policy.OnEnd(std::nullopt), milliseconds(expected)) << "the others serve meanwhile";
}

TEST(RestartPolicyTest, APermanentFailureCountsOnlyBeforeItWasEverReady) {
  RestartPolicy policy(kRestartLimits);
  EXPECT_EQ(policy.OnEnd(std::nullopt, /*permanent=*/true), std::nullopt);
  RestartPolicy served(kRestartLimits);
  EXPECT_EQ(served.OnEnd(milliseconds(20)), milliseconds(100));
  EXPECT_EQ(served.OnEnd(std::nullopt, /*permanent=*/true), milliseconds(200));
}

}  // namespace
}  // namespace numoe::worker
