// Limits of the groups around a process, on made-up file trees of both versions.
#include "common/topology/control_groups.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

class ControlGroupsTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = folder_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text << "\n";
  }
  TemporaryFolder folder_;
};

TEST_F(ControlGroupsTest, NothingLimitsWhereNothingSays) {
  EXPECT_EQ(CpuQuotaOf(folder_.path()), std::nullopt);
  EXPECT_EQ(MemoryLimitOf(folder_.path()), std::nullopt);
}

TEST_F(ControlGroupsTest, TheLeastOfTheOwnGroupAndThoseAroundItCounts) {
  Write("proc/self/cgroup", "0::/a.slice/b.service");
  Write("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), std::nullopt);
  Write("sys/fs/cgroup/a.slice/b.service/cpu.max", "150000 100000");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), 1.5);
  Write("sys/fs/cgroup/a.slice/cpu.max", "100000 200000");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), 0.5);
  Write("sys/fs/cgroup/a.slice/memory.max", "max");
  Write("sys/fs/cgroup/a.slice/b.service/memory.max", "4096");
  EXPECT_EQ(MemoryLimitOf(folder_.path()), 4096u);
  Write("proc/self/cgroup", "0::/../../elsewhere");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), std::nullopt) << "a path out of the mount is none";
}

TEST_F(ControlGroupsTest, VersionOneHasATreeForEachController) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/pod/c\n4:memory:/box\n0::/");
  Write("sys/fs/cgroup/cpu/pod/c/cpu.cfs_quota_us", "-1");
  Write("sys/fs/cgroup/cpu/pod/c/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), std::nullopt);
  Write("sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us", "250000");
  Write("sys/fs/cgroup/cpu/pod/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CpuQuotaOf(folder_.path()), 2.5);
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(MemoryLimitOf(folder_.path()), std::nullopt);
  Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "8192");
  EXPECT_EQ(MemoryLimitOf(folder_.path()), 8192u);
}

}  // namespace
}  // namespace numoe
