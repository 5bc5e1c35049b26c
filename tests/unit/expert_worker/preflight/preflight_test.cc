// Preflight on made-up file trees: each bad setting is found with its advice, good and absent ones are not.
#include "expert_worker/preflight/preflight.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PreflightTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = std::filesystem::path(folder_.path()) / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text << "\n";
  }
  std::string Bad() const {
    std::vector<Finding> bad;
    for (Finding& f : CheckSettings(folder_.path())) {
      EXPECT_EQ(f.good, f.advice.empty()) << f.what;
      if (!f.good) bad.push_back(std::move(f));
    }
    return ToString(bad);
  }
  TemporaryFolder folder_;
};

TEST_F(PreflightTest, NothingIsSaidOfFilesThatAreNotThere) {
  EXPECT_THAT(CheckSettings(folder_.path()), IsEmpty());
}

TEST_F(PreflightTest, GoodSettingsAreGood) {
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  Write("sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never");
  Write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
  Write("sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal:  8388608 kB\nNode 0 MemFree:  1048576 kB\nNode 0 FilePages:  4194304 kB");
  Write("sys/fs/cgroup/memory.max", "6442450944");
  Write("proc/sys/vm/overcommit_memory", "0");
  Write("sys/fs/cgroup/cpu.max", "max 100000");
  Write("proc/swaps", "Filename Type Size Used Priority");
  Write("proc/sys/kernel/numa_balancing", "1");  // one node: nothing to move
  EXPECT_EQ(Bad(), "");
  const std::string all = ToString(CheckSettings(folder_.path()));
  EXPECT_THAT(all, HasSubstr("memory of node 0: 8.0 GiB, of which 1.0 free and 4.0 cached files"));
  EXPECT_THAT(all, HasSubstr("the cgroup may use 6.0 GiB of memory"));
  EXPECT_EQ(CheckSettings(folder_.path()).size(), 4u);
}

TEST_F(PreflightTest, ReservedHugePagesAreToldAndMissingOnesFound) {
  const std::string pool = "sys/devices/system/node/node0/hugepages/hugepages-2048kB";
  Write(pool + "/free_hugepages", "0");
  Write(pool + "/nr_hugepages", "0");
  EXPECT_THAT(ToString(CheckSettings(folder_.path())), HasSubstr("no huge pages are reserved"));
  Write(pool + "/free_hugepages", "5");
  Write(pool + "/nr_hugepages", "9");
  EXPECT_THAT(ToString(CheckSettings(folder_.path())),
              HasSubstr("reserved huge pages of 2M on node 0: 5 of 9 are free"));
  const auto needs = [&](uint64_t pages) {
    return ToString(CheckReservedPagesFor(folder_.path(), HugePages::k2M, pages << 21, {0}));
  };
  EXPECT_THAT(needs(5), HasSubstr("enough are free"));
  EXPECT_THAT(needs(6), ::testing::AllOf(HasSubstr("6 pages of 2M are needed, free are 5 of 9 on node 0\n"),
                                         HasSubstr("echo 10 > ")));
}

TEST_F(PreflightTest, BadSettingsAreFoundWithAdvice) {
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  for (const char* cpu : {"cpu0", "cpu1"})
    Write(std::string("sys/devices/system/cpu/") + cpu + "/cpufreq/scaling_governor", "powersave");
  Write("sys/fs/cgroup/cpu.max", "350000 100000");
  Write("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2");
  Write("proc/sys/kernel/numa_balancing", "1");
  std::filesystem::create_directories(std::filesystem::path(folder_.path()) /
                                      "sys/devices/system/node/node1");
  const std::string bad = Bad();
  for (const char* needle :
       {"[never]", "2 CPUs: powersave", "3.50 CPUs", "1 swap devices", "numa_balancing is 1"})
    EXPECT_THAT(bad, HasSubstr(needle));
}

TEST_F(PreflightTest, MemoryThatCannotBecomeHugeOrLocalIsFound) {
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  Write("sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise madvise [never]");
  for (const char* node : {"0", "1"}) {
    Write(std::string("sys/devices/system/node/node") + node + "/meminfo",
          std::string("Node ") + node + " MemTotal:  8388608 kB\nNode " + node + " MemFree:  " +
              (*node == '0' ? "5242880" : "1048576") + " kB\nNode " + node + " FilePages:  2097152 kB");
  }
  Write("proc/sys/vm/overcommit_memory", "2");
  const std::string bad = Bad();
  EXPECT_THAT(bad, HasSubstr("making huge pages: "));
  EXPECT_THAT(bad, HasSubstr("memory of node 1: 8.0 GiB, of which 1.0 free and 2.0 cached files"));
  EXPECT_THAT(bad, ::testing::Not(HasSubstr("memory of node 0")));
  EXPECT_THAT(bad, HasSubstr("vm.overcommit_memory is 2"));
}

TEST_F(PreflightTest, LimitsOfTheProcessAreFound) {
  Write("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            256                  1048576              files     \n"
        "Max locked memory         65536                65536                bytes     ");
  const std::string bad = Bad();
  EXPECT_THAT(bad, HasSubstr("256 files may be open\n       ulimit -n 1024"));
  EXPECT_THAT(bad, HasSubstr("64 KiB of memory may be locked\n       ulimit -l 8192"));
  Write("proc/self/limits",
        "Max open files            1024                 1048576              files     \n"
        "Max locked memory         unlimited            unlimited            bytes     ");
  EXPECT_EQ(Bad(), "");
}

TEST_F(PreflightTest, ASmallSharedMemoryMountIsNoFault) {
  std::filesystem::create_directories(std::filesystem::path(folder_.path()) / "dev/shm");
  EXPECT_EQ(Bad(), "");
  EXPECT_THAT(ToString(CheckSettings(folder_.path())), HasSubstr("/dev/shm has "));
}

TEST_F(PreflightTest, MemoryIsComparedWithTheWeights) {
  Write("sys/fs/cgroup/memory.max", "4294967296");
  Write("sys/fs/cgroup/memory.current", "1073741824");
  Write("sys/fs/cgroup/memory.stat", "active_file 0\ninactive_file 0");
  const auto bad = [&](uint64_t weights) {
    std::vector<std::string> checks;
    for (const Finding& f : CheckMemoryFor(folder_.path(), weights))
      if (!f.good) checks.push_back(f.check);
    return checks;
  };
  EXPECT_THAT(bad(uint64_t{2} << 30), IsEmpty());
  EXPECT_THAT(bad(uint64_t{3} << 30), ElementsAre("memory_available"));
  EXPECT_THAT(bad(uint64_t{4} << 30), ElementsAre("memory_limit", "memory_available"));
  Write("sys/fs/cgroup/memory.max", "max");
  EXPECT_THAT(CheckMemoryFor(folder_.path(), uint64_t{4} << 30), IsEmpty());
}

TEST(PreflightOfThisMachineTest, NamesNodesAndInstructionSets) {
  const std::string text = ToString(Preflight({}, uint64_t{1} << 60));
  EXPECT_THAT(text, HasSubstr("node "));
  EXPECT_THAT(text, HasSubstr("64 MiB written from node "));
  EXPECT_THAT(text, HasSubstr("weights are read by "));
  EXPECT_THAT(text, HasSubstr("scalar yes"));
  EXPECT_THAT(text, HasSubstr("the worker needs 1127"));  // 2^60 bytes and a twentieth: no machine has them
}

}  // namespace
}  // namespace numoe
