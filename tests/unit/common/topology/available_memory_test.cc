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

TEST_F(AvailableMemoryTest, TheCgroupOfVersion1) {
  Write("proc/meminfo", "MemAvailable:     60 kB");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");  // none
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "45000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 60u << 10);
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "50000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 5000u);
  Write("sys/fs/cgroup/memory/memory.stat",
        "cache 7\nactive_file 1\ninactive_file 2\ntotal_inactive_file 6000\ntotal_active_file 4000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 15000u);
  // A container that sees its own group as the root is told its name on the host, where there is nothing.
  Write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/kubepods/pod1/c1\n0::/");
  EXPECT_EQ(AvailableMemory(folder_.path()), 15000u);
}

TEST_F(AvailableMemoryTest, TheLeastOfTheGroupsAroundTheProcess) {
  Write("proc/meminfo", "MemAvailable:     60 kB");
  for (const bool version2 : {false, true}) {
    const std::string mount = version2 ? "sys/fs/cgroup/" : "sys/fs/cgroup/memory/";
    const std::string limit = version2 ? "memory.max" : "memory.limit_in_bytes";
    const std::string used = version2 ? "memory.current" : "memory.usage_in_bytes";
    Write("proc/self/cgroup",
          version2 ? "0::/a.slice/b.service" : "7:cpuset:/x\n4:memory:/a.slice/b.service");
    Write(mount + "a.slice/" + limit, "50000");
    Write(mount + "a.slice/" + used, "20000");
    Write(mount + "a.slice/b.service/" + limit, "40000");
    Write(mount + "a.slice/b.service/" + used, "1000");
    EXPECT_EQ(AvailableMemory(folder_.path()), 30000u) << "the slice leaves less";
    Write(mount + "a.slice/" + used, "1000");
    EXPECT_EQ(AvailableMemory(folder_.path()), 39000u) << "the service's own";
    Write("proc/self/cgroup", version2 ? "0::/../../elsewhere" : "4:memory:/../../elsewhere");
    EXPECT_EQ(AvailableMemory(folder_.path()), 60u << 10);
  }
}

TEST_F(AvailableMemoryTest, WhatZfsWouldGiveUpCountsToo) {
  Write("proc/meminfo", "MemAvailable:     60 kB");
  Write(
      "proc/spl/kstat/zfs/arcstats",
      "13 1 0x01 98 26656 3411 1234\nname  type data\nhits 4 7\nsize 4 50000\nc_min 4 20000\nc_max 4 90000");
  EXPECT_EQ(AvailableMemory(folder_.path()), (60u << 10) + 30000);
  Write("proc/spl/kstat/zfs/arcstats", "size 4 50000\nc_min 4 60000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 60u << 10);
}

TEST(AvailableMemoryOfThisMachineTest, IsSome) { EXPECT_GT(AvailableMemory(), 1u << 20); }

}  // namespace
}  // namespace numoe
