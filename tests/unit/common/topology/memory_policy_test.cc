// Memory policies that are set and then read back from the kernel, if it lets this process set any, and the
// text of inherited policies.
#include "common/topology/memory_policy.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "common/topology/node_memory.h"
#include "common/topology/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns the policy of the mapping that begins at `address`, as /proc/self/numa_maps shows it.
std::string PolicyAt(const void* address) {
  std::ifstream maps("/proc/self/numa_maps");
  char begin[32];
  std::snprintf(begin, sizeof begin, "%lx ", reinterpret_cast<unsigned long>(address));
  for (std::string line; std::getline(maps, line);) {
    const size_t at = line.find(begin);
    if (at != std::string::npos && line.find_first_not_of('0') == at)
      return line.substr(line.find(' ') + 1, line.find(' ', line.find(' ') + 1) - line.find(' ') - 1);
  }
  return "";
}

class MemoryPolicyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::Status allowed;
    std::thread([&] { allowed = SetThreadMemoryPolicy(MemoryPolicy::kLocal, {}); }).join();
    if (!allowed.ok()) GTEST_SKIP() << "this process may not set memory policies: " << allowed;
    node_ = DetectTopology()->nodes[0].os_index;
  }
  int node_ = 0;
};

TEST_F(MemoryPolicyTest, MemoryCanBeBoundBeforeItIsWritten) {
  const NodeMemory memory = *NodeMemory::Allocate(size_t{4} << 20);
  const absl::Status bound = SetMemoryPolicy(memory.pages(), MemoryPolicy::kBind, {node_});
  ASSERT_TRUE(bound.ok()) << bound;
  const std::string policy = PolicyAt(memory.data());
  if (policy.empty()) GTEST_SKIP() << "this kernel has no numa_maps";
  EXPECT_EQ(policy, "bind:" + std::to_string(node_));
  std::memset(memory.data(), 1, memory.size());
  EXPECT_EQ(LocalShare({memory.bytes()}, {node_}).value_or(1), 1.0);
  ASSERT_TRUE(SetMemoryPolicy(memory.pages(), MemoryPolicy::kLocal, {}).ok());
  EXPECT_EQ(PolicyAt(memory.data()), "local");
}

TEST_F(MemoryPolicyTest, NodesThatDoNotExistAreRefused) {
  const NodeMemory memory = *NodeMemory::Allocate(4096);
  EXPECT_FALSE(SetMemoryPolicy(memory.pages(), MemoryPolicy::kBind, {1000}).ok());
  EXPECT_FALSE(SetMemoryPolicy(memory.pages(), MemoryPolicy::kBind, {}).ok());
}

TEST_F(MemoryPolicyTest, AScopeRestoresTheThreadsFormerPolicy) {
  std::thread([&] {
    constexpr int kBind = 2;  // MPOL_BIND
    // Returns the mode of the calling thread; numa_maps would show the main thread's.
    const auto mode = [] {
      int value = -1;
      syscall(SYS_get_mempolicy, &value, nullptr, 0, nullptr, 0);
      return value;
    };
    const int before = mode();
    EXPECT_NE(before, kBind) << "otherwise this test cannot see a difference";
    {
      const ScopedMemoryPolicy outer(MemoryPolicy::kLocal, {});
      const ScopedMemoryPolicy inner(MemoryPolicy::kBind, {node_});
      const NodeMemory memory = *NodeMemory::Allocate(4096);
      memory.data()[0] = std::byte{1};
      EXPECT_EQ(LocalShare({memory.bytes()}, {node_}).value_or(1), 1.0);
      EXPECT_EQ(mode(), kBind);
    }
    EXPECT_EQ(mode(), before);
  }).join();
}

TEST(InheritedPolicyTest, TheKernelsTextIsRead) {
  const TemporaryFolder folder;
  EXPECT_FALSE(ReadInheritedPolicy(folder.path())) << "the kernel does not tell";
  std::filesystem::create_directories(folder.path() / "proc/self");
  const auto read = [&](const std::string& policy) {
    std::ofstream(folder.path() / "proc/self/numa_maps") << "55d0 " << policy << " file=/a:b mapped=2 N0=2\n";
    return ReadInheritedPolicy(folder.path());
  };
  EXPECT_FALSE(read("default"));
  EXPECT_EQ(read("bind:0-1,3")->text, "bind:0-1,3");
  EXPECT_THAT(read("bind:0-1,3")->nodes, ElementsAre(0, 1, 3));
  EXPECT_THAT(read("prefer (many):2")->nodes, ElementsAre(2));
  EXPECT_EQ(read("prefer (many):2")->text, "prefer (many):2");
  EXPECT_THAT(read("bind=static|balancing:1")->nodes, ElementsAre(1));
  EXPECT_THAT(read("weighted interleave:0-1")->nodes, ElementsAre(0, 1));
  EXPECT_THAT(read("local")->nodes, ::testing::IsEmpty());
  EXPECT_TRUE(read("bind:0-1")->KeepsTo({1})) << "the kernel chooses the nearest of the nodes";
  EXPECT_FALSE(read("bind:0")->KeepsTo({1}));
  EXPECT_FALSE(read("interleave:0-1")->KeepsTo({1}));
  EXPECT_TRUE(read("interleave:0-1")->KeepsTo({0, 1}));
  EXPECT_TRUE(read("local")->KeepsTo({1}));
}

}  // namespace
}  // namespace numoe
