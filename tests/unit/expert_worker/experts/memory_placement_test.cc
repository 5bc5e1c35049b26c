// Where weights are placed: plans for made-up machines, and real memory on the first node of this one.
#include "expert_worker/experts/memory_placement.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "common/threading/thread_binding.h"
#include "common/topology/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kHugePage = size_t{2} << 20;

// Returns a span of addresses that the test never reads.
absl::Span<std::byte> Pages(size_t bytes) { return {reinterpret_cast<std::byte*>(kHugePage), bytes}; }

TEST(StripesTest, EveryLayerIsSpreadEvenlyOverAllNodes) {
  const std::vector<int> nodes = {2, 3};
  for (const size_t bytes : {4 * kHugePage, 37 * kHugePage + 4096, 5000 * kHugePage}) {
    std::map<int, size_t> of_node;
    const std::byte* end = Pages(bytes).data();
    const std::vector<Stripe> stripes = PlanStripes({Pages(bytes)}, nodes, /*even=*/true);
    EXPECT_LE(stripes.size(), 64u) << "the kernel counts them";
    for (const Stripe& stripe : stripes) {
      EXPECT_EQ(stripe.pages.data(), end) << "no gap";
      EXPECT_EQ(reinterpret_cast<uintptr_t>(end) % kHugePage, 0u) << "no huge page is cut";
      end += stripe.pages.size();
      ASSERT_EQ(stripe.nodes.size(), 1u);
      of_node[stripe.nodes[0]] += stripe.pages.size();
    }
    EXPECT_EQ(end, Pages(bytes).data() + bytes);
    ASSERT_EQ(of_node.size(), 2u);
    EXPECT_LT(std::max(of_node[2], of_node[3]) - std::min(of_node[2], of_node[3]),
              bytes / 16 + kHugePage + 4096);
  }
}

TEST(StripesTest, SmallLayersTakeTurnsAsAWhole) {
  const std::vector<Stripe> stripes =
      PlanStripes({Pages(8192), Pages(8192), Pages(4096)}, {0, 1}, /*even=*/true);
  ASSERT_EQ(stripes.size(), 3u);
  EXPECT_THAT(stripes[0].nodes, ElementsAre(0));
  EXPECT_THAT(stripes[1].nodes, ElementsAre(1));
  EXPECT_THAT(stripes[2].nodes, ElementsAre(0));
}

TEST(StripesTest, UnevenNodesTakeWhatTheyCan) {
  const std::vector<Stripe> stripes = PlanStripes({Pages(64 * kHugePage)}, {0, 1}, /*even=*/false);
  ASSERT_EQ(stripes.size(), 1u);
  EXPECT_THAT(stripes[0].nodes, ElementsAre(0, 1));
}

// This machine's first node, and others that it need not have: a made-up /sys tree says how much memory they
// have.
class MemoryPlacementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<Topology> topology = DetectTopology();
    ASSERT_TRUE(topology.ok()) << topology.status();
    node_ = topology->nodes[0].os_index;
    placement_ = {.nodes = {node_}, .patience = std::chrono::milliseconds(0), .root = folder_.path()};
    Write("sys/devices/system/node/has_memory", std::to_string(node_) + ",777");
    SetFree(node_, 64);
  }
  void SetFree(int node, int gib) {
    const std::string line = "Node " + std::to_string(node);
    Write("sys/devices/system/node/node" + std::to_string(node) + "/meminfo",
          line + " MemTotal: 104857600 kB\n" + line + " MemFree: " + std::to_string(gib << 20) + " kB");
  }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = folder_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full.string() + ".new") << text << "\n";
    std::filesystem::rename(full.string() + ".new", full);
  }
  TemporaryFolder folder_;
  int node_ = 0;
  MemoryPlacement placement_;
};

TEST_F(MemoryPlacementTest, WeightsThatDoNotFitAreRefusedIfRequiredAndWarnedAboutOtherwise) {
  constexpr uint64_t kBytes = uint64_t{1} << 50;
  EXPECT_FALSE(*FindRoom(placement_, kBytes));
  EXPECT_TRUE(*FindRoom(placement_, 1));
  placement_.required = true;
  const absl::Status refused = FindRoom(placement_, kBytes).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("--pinning required: 1048576.00 GiB of weights do not fit node "),
                    HasSubstr("GiB free and "), HasSubstr("; expected room for all of them")));
  placement_.nodes = {778};
  EXPECT_FALSE(*FindRoom(placement_, kBytes)) << "the free memory of this node is not known";
}

// A machine with one node, such as a desktop: the host's own numbers say better what is free (ZFS).
TEST_F(MemoryPlacementTest, NothingIsCheckedOrBoundIfThereIsNoOtherMemory) {
  constexpr uint64_t kBytes = uint64_t{1} << 50;
  placement_.required = true;
  Write("sys/devices/system/node/has_memory", std::to_string(node_));
  const absl::StatusOr<bool> bind = FindRoom(placement_, kBytes);
  ASSERT_TRUE(bind.ok()) << bind.status();
  EXPECT_FALSE(*bind);
  // Kernels that do not say which nodes have memory say which this process may use.
  std::filesystem::remove(folder_.path() / "sys/devices/system/node/has_memory");
  Write("proc/self/status", "Mems_allowed_list:\t" + std::to_string(node_));
  EXPECT_TRUE(FindRoom(placement_, kBytes).ok());
  const NodeMemory memory = *NodeMemory::Allocate(kHugePage);
  ThreadPool pool({.cpus = CpusOfThisThread()});
  EXPECT_TRUE(BindMemory({memory.pages()}, placement_, pool).ok());
  EXPECT_EQ(NodeShares({memory.bytes()}), std::nullopt) << "pages are allocated when they are written";
  Write("proc/self/status", "Mems_allowed_list:\t" + std::to_string(node_) + ",777");
  EXPECT_FALSE(FindRoom(placement_, kBytes).ok());
}

TEST_F(MemoryPlacementTest, MemoryThatIsJustBeingFreedIsWaitedFor) {
  SetFree(node_, 1);
  placement_.required = true;
  placement_.patience = placement_.patience_without_more = std::chrono::minutes(1);
  std::atomic<bool> found = false;
  std::thread finder([&] {
    const absl::StatusOr<bool> room = FindRoom(placement_, uint64_t{8} << 30);
    EXPECT_TRUE(room.ok()) << room.status();
    found = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(found.load());
  SetFree(node_, 64);
  finder.join();
}

TEST_F(MemoryPlacementTest, TheWaitEndsIfNoMoreMemoryIsFreed) {
  SetFree(node_, 1);
  placement_.required = true;
  placement_.patience = std::chrono::hours(24);  // the test would not end
  placement_.patience_without_more = std::chrono::milliseconds(300);
  EXPECT_FALSE(FindRoom(placement_, uint64_t{8} << 30).ok());
}

TEST_F(MemoryPlacementTest, PagesAreAllocatedBeforeTheyAreWritten) {
  const NodeMemory memory = *NodeMemory::Allocate(5 * kHugePage + 100);
  EXPECT_EQ(NodeShares({memory.bytes()}), std::nullopt) << "nothing is resident yet";
  ThreadPool pool({.cpus = CpusOfThisThread()});
  LoadProgress progress;
  placement_.progress = &progress;
  const absl::Status bound = BindMemory({memory.pages()}, placement_, pool);
  ASSERT_TRUE(bound.ok()) << bound;
  const auto shares = NodeShares({memory.bytes()});
  if (!shares) GTEST_SKIP() << "this process may bind no memory";
  EXPECT_EQ(*shares, (std::map<int, double>{{node_, 1.0}}));
  EXPECT_EQ(memory.data()[5 * kHugePage], std::byte{0});
  EXPECT_TRUE(CheckPlacement({memory.bytes()}, placement_).ok());
  EXPECT_EQ(progress.moves(), memory.pages().size()) << "a supervisor sees that the load moves";
  EXPECT_EQ(progress.bytes_done(), 0u);
}

// Returns the policy of the mapping at an address; -1 if the kernel does not say.
int PolicyAt(const std::byte* address) {
  constexpr unsigned long kOfAddress = 1 << 1;  // MPOL_F_ADDR
  int mode = -1;
  if (syscall(SYS_get_mempolicy, &mode, nullptr, 0, address, kOfAddress) != 0) return -1;
  return mode;
}

// For the kernel this is a node that goes away between the plan and the call.
TEST_F(MemoryPlacementTest, ARefusedBindingLeavesNothingBound) {
  constexpr int kBind = 2;  // MPOL_BIND
  const NodeMemory memory = *NodeMemory::Allocate(2 * kHugePage);
  if (PolicyAt(memory.data()) < 0) GTEST_SKIP() << "the kernel does not say what is bound";
  SetFree(777, 64);
  Write("sys/devices/system/node/has_memory", std::to_string(node_) + ",777-778");
  placement_.nodes = {node_, 777};
  ThreadPool pool({.cpus = CpusOfThisThread()});
  ASSERT_EQ(PlanStripes({memory.pages()}, placement_.nodes, /*even=*/true).front().nodes,
            std::vector<int>{node_});
  EXPECT_TRUE(BindMemory({memory.pages()}, placement_, pool).ok());
  EXPECT_NE(PolicyAt(memory.data()), kBind);
  EXPECT_NE(PolicyAt(memory.data() + kHugePage), kBind);
}

TEST_F(MemoryPlacementTest, WeightsOnOtherNodesAreRefusedIfLocalMemoryIsRequired) {
  const NodeMemory memory = *NodeMemory::Allocate(kHugePage);
  std::memset(memory.data(), 1, memory.size());
  if (!NodeShares({memory.bytes()})) GTEST_SKIP() << "the kernel does not say where pages are";
  MemoryPlacement elsewhere{.nodes = {777}};
  EXPECT_TRUE(CheckPlacement({memory.bytes()}, elsewhere).ok()) << "a warning";
  elsewhere.required = true;
  const absl::Status refused = CheckPlacement({memory.bytes()}, elsewhere);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << "another try may find room";
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("--pinning required: 0% of the weights are on node 777, expected at least 95%"));
}

}  // namespace
}  // namespace numoe::worker
