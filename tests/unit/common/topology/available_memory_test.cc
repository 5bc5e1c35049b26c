// The smaller of what the machine and the cgroup leave, on made-up file trees.
#include "common/topology/available_memory.h"

#include <fstream>

#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

class AvailableMemoryTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = folder_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text << "\n";
  }
  TemporaryFolder folder_;
};

TEST_F(AvailableMemoryTest, NothingSaysNothing) { EXPECT_EQ(AvailableMemory(folder_.path()), UINT64_MAX); }

TEST_F(AvailableMemoryTest, TheMachine) {
  Write("proc/meminfo", "MemTotal:  100 kB\nMemFree: 10 kB\nMemAvailable:     60 kB\nBuffers: 1 kB");
  EXPECT_EQ(AvailableMemory(folder_.path()), 60u << 10);
  Write("sys/fs/cgroup/memory.max", "max");
  Write("sys/fs/cgroup/memory.current", "50000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 60u << 10);
}

TEST_F(AvailableMemoryTest, TheCgroupWithItsFilesGivenUp) {
  Write("proc/meminfo", "MemAvailable:     60 kB");
  Write("sys/fs/cgroup/memory.max", "50000");
  Write("sys/fs/cgroup/memory.current", "45000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 5000u);
  Write("sys/fs/cgroup/memory.stat", "anon 25000\nfile 20000\nactive_file 4000\ninactive_file 6000\nslab 1");
  EXPECT_EQ(AvailableMemory(folder_.path()), 15000u);
  Write("sys/fs/cgroup/memory.current", "90000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 0u);
}

TEST(AvailableMemoryOfThisMachineTest, IsSome) { EXPECT_GT(AvailableMemory(), 1u << 20); }

}  // namespace
}  // namespace numoe
