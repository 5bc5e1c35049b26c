// The smaller of what the machine and the cgroups leave, read from invented file trees.
#include "common/topology/available_memory.h"

#include <fstream>

#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

class AvailableMemoryTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(AvailableMemoryTest, WithoutFilesThereIsNoBound) {
  EXPECT_EQ(AvailableMemory(folder_.path()), UINT64_MAX);
}

TEST_F(AvailableMemoryTest, TheMachineBoundsTheMemory) {
  folder_.WriteLine("proc/meminfo",
                    "MemTotal:  100 kB\nMemFree: 10 kB\nMemAvailable:     60 kB\nBuffers: 1 kB");
  EXPECT_EQ(AvailableMemory(folder_.path()), 60u << 10);
  folder_.WriteLine("sys/fs/cgroup/memory.max", "max");
  folder_.WriteLine("sys/fs/cgroup/memory.current", "50000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 60u << 10);
}

TEST_F(AvailableMemoryTest, TheCgroupBoundsTheMemoryWithoutItsCachedFiles) {
  folder_.WriteLine("proc/meminfo", "MemAvailable:     60 kB");
  folder_.WriteLine("sys/fs/cgroup/memory.max", "50000");
  folder_.WriteLine("sys/fs/cgroup/memory.current", "45000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 5000u);
  folder_.WriteLine("sys/fs/cgroup/memory.stat",
                    "anon 25000\nfile 20000\nactive_file 4000\ninactive_file 6000\nslab 1");
  EXPECT_EQ(AvailableMemory(folder_.path()), 15000u);
  folder_.WriteLine("sys/fs/cgroup/memory.current", "90000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 0u);
}

TEST_F(AvailableMemoryTest, ACgroupOfVersion1BoundsTheMemory) {
  folder_.WriteLine("proc/meminfo", "MemAvailable:     60 kB");
  folder_.WriteLine("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");  // no limit
  folder_.WriteLine("sys/fs/cgroup/memory/memory.usage_in_bytes", "45000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 60u << 10);
  folder_.WriteLine("sys/fs/cgroup/memory/memory.limit_in_bytes", "50000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 5000u);
  folder_.WriteLine(
      "sys/fs/cgroup/memory/memory.stat",
      "cache 7\nactive_file 1\ninactive_file 2\ntotal_inactive_file 6000\ntotal_active_file 4000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 15000u);
  // A container that sees its own group as the root reads the group's path on the host, which it cannot see.
  folder_.WriteLine("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/kubepods/pod1/c1\n0::/");
  EXPECT_EQ(AvailableMemory(folder_.path()), 15000u);
}

TEST_F(AvailableMemoryTest, TheSmallestBoundOfTheGroupsAroundTheProcessCounts) {
  folder_.WriteLine("proc/meminfo", "MemAvailable:     60 kB");
  for (const bool version2 : {false, true}) {
    const std::string mount = version2 ? "sys/fs/cgroup/" : "sys/fs/cgroup/memory/";
    const std::string limit = version2 ? "memory.max" : "memory.limit_in_bytes";
    const std::string used = version2 ? "memory.current" : "memory.usage_in_bytes";
    folder_.WriteLine("proc/self/cgroup",
                      version2 ? "0::/a.slice/b.service" : "7:cpuset:/x\n4:memory:/a.slice/b.service");
    folder_.WriteLine(mount + "a.slice/" + limit, "50000");
    folder_.WriteLine(mount + "a.slice/" + used, "20000");
    folder_.WriteLine(mount + "a.slice/b.service/" + limit, "40000");
    folder_.WriteLine(mount + "a.slice/b.service/" + used, "1000");
    EXPECT_EQ(AvailableMemory(folder_.path()), 30000u) << "the slice leaves less";
    folder_.WriteLine(mount + "a.slice/" + used, "1000");
    EXPECT_EQ(AvailableMemory(folder_.path()), 39000u) << "the service itself leaves less";
    folder_.WriteLine("proc/self/cgroup", version2 ? "0::/../../elsewhere" : "4:memory:/../../elsewhere");
    EXPECT_EQ(AvailableMemory(folder_.path()), 60u << 10);
  }
}

TEST_F(AvailableMemoryTest, WhatZfsWouldFreeCountsToo) {
  folder_.WriteLine("proc/meminfo", "MemAvailable:     60 kB");
  folder_.WriteLine(
      "proc/spl/kstat/zfs/arcstats",
      "13 1 0x01 98 26656 3411 1234\nname  type data\nhits 4 7\nsize 4 50000\nc_min 4 20000\nc_max 4 90000");
  EXPECT_EQ(AvailableMemory(folder_.path()), (60u << 10) + 30000);
  folder_.WriteLine("proc/spl/kstat/zfs/arcstats", "size 4 50000\nc_min 4 60000");
  EXPECT_EQ(AvailableMemory(folder_.path()), 60u << 10);
}

TEST(AvailableMemoryOfThisMachineTest, IsMoreThanAMebibyte) { EXPECT_GT(AvailableMemory(), 1u << 20); }

}  // namespace
}  // namespace numoe
