// Limits of the groups around a process, read from invented file trees of both versions.
#include "common/topology/control_groups.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

class ControlGroupsTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(ControlGroupsTest, WithoutFilesThereIsNoLimit) {
  EXPECT_EQ(CpuQuotaOf(folder_.path()), std::nullopt);
  EXPECT_EQ(MemoryLimitOf(folder_.path()), std::nullopt);
}

TEST_F(ControlGroupsTest, TheSmallestLimitOfTheGroupAndThoseAroundItCounts) {
  folder_.WriteLine("proc/self/cgroup", "0::/a.slice/b.service");
  folder_.WriteLine("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), std::nullopt);
  folder_.WriteLine("sys/fs/cgroup/a.slice/b.service/cpu.max", "150000 100000");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), 1.5);
  folder_.WriteLine("sys/fs/cgroup/a.slice/cpu.max", "100000 200000");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), 0.5);
  folder_.WriteLine("sys/fs/cgroup/a.slice/memory.max", "max");
  folder_.WriteLine("sys/fs/cgroup/a.slice/b.service/memory.max", "4096");
  EXPECT_EQ(MemoryLimitOf(folder_.path()), 4096u);
  folder_.WriteLine("proc/self/cgroup", "0::/../../elsewhere");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), std::nullopt) << "a path that leaves the mount is ignored";
}

TEST_F(ControlGroupsTest, VersionOneHasATreeForEachController) {
  folder_.WriteLine("proc/self/cgroup", "5:cpu,cpuacct:/pod/c\n4:memory:/box\n0::/");
  folder_.WriteLine("sys/fs/cgroup/cpu/pod/c/cpu.cfs_quota_us", "-1");
  folder_.WriteLine("sys/fs/cgroup/cpu/pod/c/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), std::nullopt);
  folder_.WriteLine("sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us", "250000");
  folder_.WriteLine("sys/fs/cgroup/cpu/pod/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), 2.5);
  folder_.WriteLine("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(MemoryLimitOf(folder_.path()), std::nullopt);
  folder_.WriteLine("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "8192");
  EXPECT_EQ(MemoryLimitOf(folder_.path()), 8192u);
}

}  // namespace
}  // namespace numoe
