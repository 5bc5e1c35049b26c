// Memory blocks: alignment, zeros, moves, and what the kernel tells about their pages.
#include "common/topology/node_memory.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "common/topology/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

NodeMemory Allocate(size_t bytes) {
  absl::StatusOr<NodeMemory> memory = NodeMemory::Allocate(bytes);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *std::move(memory);
}

TEST(NodeMemoryTest, IsAlignedZeroAndWritable) {
  for (const size_t bytes : {size_t{1}, size_t{5000}, kHugePage, 3 * kHugePage + 17}) {
    const NodeMemory memory = Allocate(bytes);
    ASSERT_EQ(memory.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % (bytes >= kHugePage ? kHugePage : 4096), 0u);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory.data()[i], std::byte{0});
    std::memset(memory.data(), 0xAB, bytes);
    EXPECT_EQ(memory.data()[bytes - 1], std::byte{0xAB});
  }
}

TEST(NodeMemoryTest, ZeroBytesGiveAnEmptyBlock) {
  const NodeMemory memory = Allocate(0);
  EXPECT_EQ(memory.size(), 0u);
  EXPECT_EQ(memory.data(), nullptr);
}

TEST(NodeMemoryTest, AMoveKeepsTheBytes) {
  NodeMemory first = Allocate(100);
  first.data()[99] = std::byte{7};
  NodeMemory second = std::move(first);
  EXPECT_EQ(second.size(), 100u);
  EXPECT_EQ(second.data()[99], std::byte{7});
  NodeMemory third = Allocate(10);
  third = std::move(second);
  EXPECT_EQ(third.data()[99], std::byte{7});
}

TEST(NodeMemoryTest, TheErrorForTooMuchMemoryNamesTheSize) {
  const absl::StatusOr<NodeMemory> memory = NodeMemory::Allocate(size_t{1} << 60);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(memory.status().ToString(), ::testing::HasSubstr("1073741824.00 GiB"));
}

TEST(NodeMemoryTest, LocalShareFindsTheNodeOfThePages) {
  const absl::StatusOr<Topology> topology = DetectTopology();
  ASSERT_TRUE(topology.ok()) << topology.status();
  if (topology->nodes.size() != 1)
    GTEST_SKIP() << "needs a machine with one node, because this thread may change nodes";
  const NodeMemory memory = Allocate(2 * kHugePage);
  const MemorySpans blocks = {memory.bytes()};
  EXPECT_EQ(LocalShare(blocks, {0}), std::nullopt) << "no page is resident yet";
  std::memset(memory.data(), 1, memory.size());
  const std::optional<double> local = LocalShare(blocks, {topology->nodes[0].os_index});
  if (!local.has_value()) GTEST_SKIP() << "the kernel does not tell where pages are (it refuses move_pages)";
  EXPECT_EQ(*local, 1.0);
  EXPECT_EQ(LocalShare(blocks, {topology->nodes[0].os_index + 1}), 0.0);
  uint64_t moved = 0;
  MoveToNodes(blocks, {topology->nodes[0].os_index}, [&](uint64_t bytes) { moved += bytes; });
  EXPECT_EQ(moved, memory.size()) << "a load that moves pages progresses";
  EXPECT_EQ(memory.data()[kHugePage], std::byte{1});
  EXPECT_EQ(NodeShares(blocks), (std::map<int, double>{{topology->nodes[0].os_index, 1.0}}));
}

// Kernels before 5.14 refuse the advice in the same way as every kernel refuses an unknown one.
TEST(NodeMemoryTest, PagesArePopulatedIfTheKernelDoesNotKnowTheAdvice) {
  constexpr int kUnknown = 12'345;
  const NodeMemory memory = Allocate(3 * kHugePage + 100);
  ASSERT_TRUE(PopulatePages(memory.pages(), HugePages::k2M, kUnknown).ok());
  EXPECT_EQ(NodeShares({memory.bytes()}), std::nullopt)
      << "reserved pages are allocated when they are first written";
  ASSERT_TRUE(PopulatePages(memory.pages(), HugePages::kTransparent, kUnknown).ok());
  const auto shares = NodeShares({memory.bytes()});
  if (!shares) GTEST_SKIP() << "the kernel does not tell where pages are";
  double all = 0;
  for (const auto& [node, share] : *shares) all += share;
  EXPECT_NEAR(all, 1.0, 1e-9);
  for (const std::byte byte : memory.bytes()) ASSERT_EQ(byte, std::byte{0});
}

// This is used if the kernel refuses move_pages: mappings on two nodes, one of them in huge pages.
TEST(NodeMemoryTest, NumaMapsTellTheNodesOfThePages) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "proc/self");
  std::ofstream(folder.path() / "proc/self/numa_maps")
      << "10000000 default file=/usr/bin/x mapped=2 N0=9000 kernelpagesize_kB=4\n"
         "20000000 bind:1 huge anon=3 dirty=3 N1=3 kernelpagesize_kB=2048\n"
         "20800000 default anon=512 dirty=512 N0=512 kernelpagesize_kB=4\n"
         "30000000 default stack anon=1 N0=700 kernelpagesize_kB=4\n";
  const auto span = [](uintptr_t address, size_t bytes) {
    return absl::Span<const std::byte>(reinterpret_cast<const std::byte*>(address), bytes);
  };
  EXPECT_EQ(ReadNodeShares(folder.path(), {span(0x20000000, 100), span(0x20800000, 4096)}),
            (std::map<int, double>{{0, 0.25}, {1, 0.75}}));
  EXPECT_EQ(ReadNodeShares(folder.path(), {span(0x20200000, 4096)}), (std::map<int, double>{{1, 1.0}}));
  EXPECT_EQ(ReadNodeShares(folder.path(), {}), std::nullopt);
  EXPECT_EQ(ReadNodeShares("/nowhere", {span(0x20000000, 100)}), std::nullopt);
}

TEST(NodeMemoryTest, HugePageShareDependsOnTheKernelsSetting) {
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
  EXPECT_EQ(HugePageShare({}), std::nullopt);
  const NodeMemory memory = Allocate(8 * kHugePage);
  std::memset(memory.data(), 1, memory.size());
  const std::optional<double> share = HugePageShare({memory.bytes()});
  ASSERT_TRUE(share.has_value());
  EXPECT_LE(*share, 1.0);
  if (setting.empty() || setting.find("[never]") != std::string::npos) {
    EXPECT_EQ(*share, 0.0);
    GTEST_SKIP() << "this kernel does not use transparent huge pages; only their absence was checked";
  }
  EXPECT_GT(*share, 0.4) << setting;
}

}  // namespace
}  // namespace numoe
