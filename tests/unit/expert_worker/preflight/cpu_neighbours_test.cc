// Workers that may use the same CPUs find each other, in whatever order they come and go.
#include "expert_worker/preflight/cpu_neighbours.h"

#include <atomic>
#include <chrono>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

// CPUs that no machine has, so that no real worker is counted.
const std::vector<int> kCpus = {54'321, 54'323};

std::unique_ptr<CpuNeighbours> Join(const std::vector<int>& cpus = kCpus) {
  auto joined = CpuNeighbours::Join(cpus);
  EXPECT_TRUE(joined.ok()) << joined.status();
  return *std::move(joined);
}

void Await(const std::function<bool()>& done) {
  for (int i = 0; i < 3'000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(done()) << "not within 30 s";
}

TEST(CpuNeighboursTest, AllCountTheSameAndHaveAPartEach) {
  const auto first = Join();
  EXPECT_EQ(first->Count(), (CpuShare{0, 1}));
  auto second = Join({kCpus[1], kCpus[0]});
  const auto other = Join({kCpus[0]});
  EXPECT_EQ(first->Count(), (CpuShare{0, 2}));
  EXPECT_EQ(second->Count(), (CpuShare{1, 2}));
  EXPECT_EQ(other->Count(), (CpuShare{0, 1})) << "it has other CPUs";
  const auto third = Join();
  EXPECT_EQ(third->Count(), (CpuShare{2, 3}));
  second.reset();
  EXPECT_EQ(third->Count(), (CpuShare{1, 2}));
  const auto back = Join();
  EXPECT_EQ(back->Count(), (CpuShare{1, 3})) << "one that is started again has its place again";
}

TEST(CpuNeighboursTest, TheFirstOneNoticesOthersThatComeAndGo) {
  const auto first = Join();
  std::atomic<int> sharing = 1;
  first->Follow(first->Count(), [&](const CpuShare& share) {
    EXPECT_EQ(share.place, 0);
    sharing = share.sharing;
  });
  {
    const auto second = Join();
    Await([&] { return sharing.load() == 2; });
  }
  Await([&] { return sharing.load() == 1; });
}

// Each count leaves a connection behind; a listener that does not accept them fills up and still counts.
TEST(CpuNeighboursTest, AWorkerThatIsBusyCounts) {
  const auto busy = Join();
  const auto looking = Join();
  for (int look = 0; look < 2'000; ++look) ASSERT_EQ(looking->Count().sharing, 2) << look;
}

}  // namespace
}  // namespace numoe::worker
