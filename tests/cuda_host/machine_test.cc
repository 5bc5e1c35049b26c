// Tests of the CUDA execution model on the host: correct kernels pass under every schedule, and each class of
// mistake is found.

#include "tests/cuda_host/machine.h"

#include <atomic>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda_host/machine_test_kernels.h"
#include "tests/cuda_host/schedule.h"

namespace numoe {
namespace {

using cuda_host::CopyDelivery;
using cuda_host::RunUnderAllSchedules;
using cuda_host::ThreadOrder;
using execution::cuda::Mistake;

// TSan itself reports the races of these kernels.
#if defined(__SANITIZE_THREAD__)
constexpr bool kFindsRaces = true;
#else
constexpr bool kFindsRaces = false;
#endif

std::vector<int> Numbers(int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

bool RotatesRightly(Mistake mistake, int blocks) {
  const std::vector<int> in = Numbers(blocks * 256);
  std::vector<int> out(in.size(), -7);
  execution::cuda::LaunchRotate(mistake, in.data(), out.data(), blocks, nullptr);
  for (size_t i = 0; i < in.size(); ++i) {
    if (out[i] != in[i / 256 * 256 + (i + 1) % 256]) return false;
  }
  return true;
}

bool CopiesRightly(Mistake mistake) {
  const std::vector<int> in = Numbers(3 * 1024);
  std::vector<int> out(3);
  execution::cuda::LaunchCopySums(mistake, in.data(), out.data(), 3);
  for (size_t block = 0; block < 3; ++block) {
    if (out[block] != std::accumulate(&in[block * 1024], &in[block * 1024] + 1024, 0)) return false;
  }
  return true;
}

bool SumsRightly(Mistake mistake) {
  const std::vector<int> in = Numbers(64);
  std::vector<int> out(64);
  execution::cuda::LaunchWarpSums(mistake, in.data(), out.data());
  for (size_t i = 0; i < 64; ++i) {
    if (out[i] != std::accumulate(&in[i / 32 * 32], &in[i / 32 * 32] + 32, 0)) return false;
  }
  return true;
}

/// Returns the number of schedules that give a wrong result.
template <class Right>
int WrongSchedules(Right right) {
  int wrong = 0;
  RunUnderAllSchedules([&] { wrong += right() ? 0 : 1; });
  return wrong;
}

TEST(MachineTest, RightKernelsPassUnderEverySchedule) {
  EXPECT_EQ(WrongSchedules([] { return RotatesRightly(Mistake::kNone, 3); }), 0);
  EXPECT_EQ(WrongSchedules([] { return SumsRightly(Mistake::kNone); }), 0);
  EXPECT_EQ(WrongSchedules([] { return CopiesRightly(Mistake::kNone); }), 0);
}

TEST(MachineTest, EveryThreadOfTheGridRunsOnceWithItsIndices) {
  RunUnderAllSchedules([] {
    std::vector<int> out(6 * 64);
    execution::cuda::LaunchIndices(out.data());
    for (int i = 0; i < 6 * 64; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], i / 64 * 1000 + i % 64);
  });
}

TEST(MachineTest, MissingSynchronisationGivesWrongResults) {
  if (kFindsRaces) GTEST_SKIP() << "TSan stops at the race";
  EXPECT_GT(WrongSchedules([] { return RotatesRightly(Mistake::kMissingSyncthreads, 1); }), 3);
  EXPECT_GT(WrongSchedules([] { return RotatesRightly(Mistake::kMissingSyncBeforeReuse, 1); }), 0);
  EXPECT_GT(WrongSchedules([] { return RotatesRightly(Mistake::kUnwrittenShared, 1); }), 0);
  EXPECT_GT(WrongSchedules([] { return SumsRightly(Mistake::kMissingSyncwarp); }), 3);
  EXPECT_GT(WrongSchedules([] { return CopiesRightly(Mistake::kMissingBarrierAfterCopy); }), 0);
}

TEST(MachineTest, LateDeliveryFindsAMissingCopyWait) {
  if (kFindsRaces) GTEST_SKIP() << "TSan stops at the race";
  cuda_host::SetSchedule({.copies = CopyDelivery::kEarly});
  EXPECT_TRUE(CopiesRightly(Mistake::kMissingCopyWait));
  cuda_host::SetSchedule({.copies = CopyDelivery::kLate});
  EXPECT_FALSE(CopiesRightly(Mistake::kMissingCopyWait));
  cuda_host::SetSchedule({});
}

TEST(MachineDeathTest, RacesAreReportedUnderTsan) {
  if (!kFindsRaces) GTEST_SKIP() << "needs TSan";
  const auto stopped = testing::ExitedWithCode(66);  // TSan's exit code
  const auto run = [](const auto& kernel) {
    kernel();
    std::exit(0);
  };
  const std::string race = "data race(.|\n)*Previous (read|write).*(.|\n)*kernels.cu";
  EXPECT_EXIT(run([] { RotatesRightly(Mistake::kMissingSyncthreads, 1); }), stopped, race);
  EXPECT_EXIT(run([] { RotatesRightly(Mistake::kMissingSyncBeforeReuse, 1); }), stopped, "data race");
  EXPECT_EXIT(run([] { SumsRightly(Mistake::kMissingSyncwarp); }), stopped, race);
  EXPECT_EXIT(run([] { CopiesRightly(Mistake::kMissingBarrierAfterCopy); }), stopped, race);
}

TEST(MachineDeathTest, CopiesWithoutAWaitStop) {
  EXPECT_DEATH(CopiesRightly(Mistake::kCopyNobodyWaitsFor), "thread exits while its cp.async are in flight");
  EXPECT_DEATH(CopiesRightly(Mistake::kMisalignedCopy), "cp.async: an address is not aligned");
}

TEST(MachineDeathTest, ContradictoryCollectivesStopAndReportTheirPlaces) {
  int out[64] = {};
  EXPECT_DEATH(
      execution::cuda::LaunchCollective(Mistake::kDivergentBarrier, out),
      "Collective.*divergent barrier.*kernels.cu:[0-9]+.*in thread \\(32,0,0\\) of block \\(0,0,0\\)");
  EXPECT_DEATH(execution::cuda::LaunchCollective(Mistake::kSkippedBarrier, out),
               "exits while others wait at __syncthreads");
  EXPECT_DEATH(execution::cuda::LaunchCollective(Mistake::kDeadlock, out),
               "deadlock(.|\n)*threads 0..15: __syncwarp(.|\n)*threads 16..63: __syncthreads");
  EXPECT_DEATH(execution::cuda::LaunchCollective(Mistake::kWrongMask, out),
               "the calling lane is not named in the mask");
  EXPECT_DEATH(execution::cuda::LaunchCollective(Mistake::kLaneMissing, out), "exit");
  EXPECT_DEATH(execution::cuda::LaunchCollective(Mistake::kDivergentShuffle, out),
               "divergent warp operation");
  execution::cuda::LaunchCollective(Mistake::kNone, out);
  EXPECT_EQ(out[63], 63);
}

TEST(MachineDeathTest, TheSumOfStaticAndDynamicSharedMemoryIsBounded) {
  int out[32] = {};
  constexpr size_t kAda = 99 << 10, kStatic = 32 << 10;
  cuda_host::SetBlockSharedBytesMax(kAda);
  execution::cuda::LaunchShares(kAda - kStatic, out);
  EXPECT_EQ(out[31], 31);
  EXPECT_DEATH(execution::cuda::LaunchShares(kAda - kStatic + 16, out),
               "Shares.*more shared memory than the device allows");
  cuda_host::SetBlockSharedBytesMax(cuda_host::kBlockSharedBytesMax);
  execution::cuda::LaunchShares(kAda - kStatic + 16, out);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(MachineDeathTest, AsanDetectsOverrunsOfSharedMemory) {
  EXPECT_DEATH(RotatesRightly(Mistake::kSharedOverrun, 1), "heap-buffer-overflow|out of bounds");
}
#endif

TEST(MachineTest, WarpWordsMatchTheirDefinition) {
  std::vector<int> in(32);
  for (int lane = 0; lane < 32; ++lane) in[static_cast<size_t>(lane)] = (lane * 37 + 11) % 64 - 32;
  const auto at = [&](int lane) { return in[static_cast<size_t>(lane)]; };
  const int sum = std::accumulate(in.begin(), in.end(), 0);
  unsigned positive = 0;
  for (int lane = 0; lane < 32; ++lane) positive |= static_cast<unsigned>(at(lane) > 0) << lane;
  RunUnderAllSchedules([&] {
    std::vector<int> out(execution::cuda::kWarpWords * 32);
    execution::cuda::LaunchWarpWords(in.data(), out.data());
    for (int lane = 0; lane < 32; ++lane) {
      unsigned equal = 0;
      unsigned top = 0;
      for (int other = 0; other < 32; ++other) {
        equal |= static_cast<unsigned>(at(other) % 3 == at(lane) % 3) << other;
        top = std::max(top, static_cast<unsigned>(at(other)));
      }
      const int half = lane < 16 ? std::accumulate(in.begin(), in.begin() + 16, 0)
                                 : std::accumulate(in.begin() + 16, in.end(), 0);
      const std::vector<int> expected = {at(lane / 8 * 8 + (lane + 3) % 8),
                                         at(lane ^ 5),
                                         at(lane % 16 < 14 ? lane + 2 : lane),
                                         at(lane >= 3 ? lane - 3 : lane),
                                         static_cast<int>(positive),
                                         1,
                                         0,
                                         sum,
                                         *std::min_element(in.begin(), in.end()),
                                         *std::max_element(in.begin(), in.end()),
                                         static_cast<int>(top),
                                         static_cast<int>(equal),
                                         std::popcount(positive),
                                         half};
      for (size_t word = 0; word < expected.size(); ++word) {
        EXPECT_EQ(out[word * 32 + static_cast<size_t>(lane)], expected[word]) << "word " << word;
      }
    }
  });
}

TEST(MachineTest, AGridMayWaitForAnotherThreadThatAlsoLaunches) {
  alignas(8) uint32_t flag = 0;
  alignas(8) uint32_t answer = 0;
  std::thread waiting([&] { execution::cuda::LaunchWaitForFlag(&flag, &answer); });
  EXPECT_TRUE(RotatesRightly(Mistake::kNone, 4));  // on this thread, while the other grid spins
  std::atomic_ref(flag).store(1, std::memory_order_release);
  waiting.join();
  EXPECT_EQ(answer, 7u);
}

TEST(MachineTest, ASinkReceivesLaunchesOnStreamsAndMayRunThemLaterAndRepeatedly) {
  std::vector<std::function<void()>> taken;
  CUstream_st* const stream = reinterpret_cast<CUstream_st*>(&taken);
  cuda_host::SetLaunchSink([&](CUstream_st* on, std::function<void()> launch) {
    EXPECT_EQ(on, stream);
    taken.push_back(std::move(launch));
  });
  const std::vector<int> in = Numbers(256);
  std::vector<int> out(256);
  execution::cuda::LaunchRotate(Mistake::kNone, in.data(), out.data(), 1, stream);
  EXPECT_EQ(out[0], 0);
  ASSERT_EQ(taken.size(), 1u);
  for (int run = 0; run < 2; ++run) {
    out.assign(256, 0);
    std::thread(taken[0]).join();
    EXPECT_EQ(out[0], 2);
  }
  EXPECT_TRUE(RotatesRightly(Mistake::kNone, 1)) << "launches on the null stream must not go to the sink";
  cuda_host::SetLaunchSink(nullptr);
}

}  // namespace
}  // namespace numoe
