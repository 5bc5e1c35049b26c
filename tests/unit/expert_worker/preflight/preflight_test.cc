// Preflight on made-up file trees: each bad setting is found with its advice, good and absent ones are not.
#include "expert_worker/preflight/preflight.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PreflightTest : public ::testing::Test {
 protected:
  std::string Bad(bool policies_allowed = true) const {
    std::vector<Finding> bad;
    for (Finding& f : CheckSettings(folder_.path(), policies_allowed)) {
      EXPECT_EQ(f.good, f.advice.empty()) << f.what;
      if (!f.good) bad.push_back(std::move(f));
    }
    return ToString(bad);
  }
  std::vector<Finding> MemoryFor(const std::vector<WorkerOnNodes>& workers) const {
    return CheckMemoryFor(folder_.path(), workers, (folder_.path() / "reservations").string());
  }
  TemporaryFolder folder_;
};

TEST_F(PreflightTest, MissingFilesAreNotReported) {
  EXPECT_THAT(CheckSettings(folder_.path(), true), IsEmpty());
}

TEST_F(PreflightTest, GoodSettingsAreGood) {
  folder_.WriteLine("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  folder_.WriteLine("sys/kernel/mm/transparent_hugepage/defrag",
                    "always defer defer+madvise [madvise] never");
  folder_.WriteLine("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
  folder_.WriteLine(
      "sys/devices/system/node/node0/meminfo",
      "Node 0 MemTotal:  8388608 kB\nNode 0 MemFree:  1048576 kB\nNode 0 Active(file):  4194304 kB");
  folder_.WriteLine("sys/fs/cgroup/memory.max", "6442450944");
  folder_.WriteLine("proc/sys/vm/overcommit_memory", "0");
  folder_.WriteLine("sys/fs/cgroup/cpu.max", "max 100000");
  folder_.WriteLine("proc/swaps", "Filename Type Size Used Priority");
  folder_.WriteLine("proc/sys/kernel/numa_balancing", "1");  // one node: nothing to move
  EXPECT_EQ(Bad(), "");
  const std::string all = ToString(CheckSettings(folder_.path(), true));
  EXPECT_THAT(all, HasSubstr("memory of node 0: 8.0 GiB, of which 1.0 free and 4.0 cached files"));
  EXPECT_THAT(all, HasSubstr("the cgroup may use 6.0 GiB of memory"));
  EXPECT_EQ(CheckSettings(folder_.path(), true).size(), 4u);
}

TEST_F(PreflightTest, ReservedHugePagesAreReportedAndMissingOnesFound) {
  const std::string pool = "sys/devices/system/node/node0/hugepages/hugepages-2048kB";
  folder_.WriteLine(pool + "/free_hugepages", "0");
  folder_.WriteLine(pool + "/nr_hugepages", "0");
  EXPECT_THAT(ToString(CheckSettings(folder_.path(), true)), HasSubstr("no huge pages are reserved"));
  folder_.WriteLine(pool + "/free_hugepages", "5");
  folder_.WriteLine(pool + "/nr_hugepages", "9");
  EXPECT_THAT(ToString(CheckSettings(folder_.path(), true)),
              HasSubstr("reserved huge pages of 2M on node 0: 5 of 9 are free"));
  const auto needs = [&](uint64_t pages) {
    return ToString(CheckReservedPagesFor(folder_.path(), HugePages::k2M, pages << 21, {0}));
  };
  EXPECT_THAT(needs(5), HasSubstr("enough are free"));
  EXPECT_THAT(needs(6), ::testing::AllOf(
                            HasSubstr("6 pages of 2M are needed, but only 5 are free (5 of 9 on node 0)\n"),
                            HasSubstr("echo 10 > ")));
}

TEST_F(PreflightTest, BadSettingsAreFoundWithAdvice) {
  folder_.WriteLine("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  for (const char* cpu : {"cpu0", "cpu1"})
    folder_.WriteLine(std::string("sys/devices/system/cpu/") + cpu + "/cpufreq/scaling_governor",
                      "powersave");
  folder_.WriteLine("sys/fs/cgroup/cpu.max", "350000 100000");
  folder_.WriteLine("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2");
  folder_.WriteLine("proc/sys/kernel/numa_balancing", "1");
  std::filesystem::create_directories(std::filesystem::path(folder_.path()) /
                                      "sys/devices/system/node/node1");
  const std::string bad = Bad();
  for (const char* needle :
       {"[never]", "2 CPUs: powersave", "3.50 CPUs", "1 swap devices", "numa_balancing is 1"})
    EXPECT_THAT(bad, HasSubstr(needle));
}

TEST_F(PreflightTest, MemoryThatCannotBecomeHugeOrLocalIsFound) {
  folder_.WriteLine("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  folder_.WriteLine("sys/kernel/mm/transparent_hugepage/defrag",
                    "always defer defer+madvise madvise [never]");
  for (const char* node : {"0", "1"}) {
    folder_.WriteLine(std::string("sys/devices/system/node/node") + node + "/meminfo",
                      std::string("Node ") + node + " MemTotal:  8388608 kB\nNode " + node +
                          " MemFree:  " + (*node == '0' ? "5242880" : "1048576") + " kB\nNode " + node +
                          " Inactive(file):  2097152 kB");
  }
  folder_.WriteLine("proc/sys/vm/overcommit_memory", "2");
  const std::string bad = Bad();
  EXPECT_THAT(bad, HasSubstr("compaction for huge pages: "));
  EXPECT_THAT(bad, HasSubstr("memory of node 1: 8.0 GiB, of which 1.0 free and 2.0 cached files\n"
                             "       more than half of it is used by other processes"));
  EXPECT_THAT(bad, ::testing::Not(HasSubstr("memory of node 0")));
  EXPECT_THAT(bad, HasSubstr("vm.overcommit_memory is 2"));
}

TEST_F(PreflightTest, SharedMemoryDoesNotCountAsCachedFiles) {
  for (const char* node : {"0", "1"}) {
    const std::string line = std::string("Node ") + node + " ";
    folder_.WriteLine(std::string("sys/devices/system/node/node") + node + "/meminfo",
                      line + "MemTotal:  8388608 kB\n" + line + "MemFree:  2097152 kB\n" + line +
                          "FilePages:  5242880 kB\n" + line + "Shmem:  " + (*node == '0' ? "0" : "5242880") +
                          " kB\n" + line + "Active(file):  " + (*node == '0' ? "5242880" : "0") + " kB\n" +
                          line + "SReclaimable:  0 kB");
  }
  // Cached files are dropped for memory that is bound to a node; shared memory is not.
  const std::string bad = Bad();
  EXPECT_THAT(bad, HasSubstr("memory of node 1: 8.0 GiB, of which 2.0 free and 0.0 cached files"));
  EXPECT_THAT(bad, HasSubstr("shared memory"));
  EXPECT_THAT(bad, ::testing::Not(HasSubstr("node 0")));
  EXPECT_THAT(bad, ::testing::Not(HasSubstr("drop_caches")));
  const std::string first_touch = Bad(/*policies_allowed=*/false);
  EXPECT_THAT(first_touch, HasSubstr("memory of node 0: 8.0 GiB, of which 2.0 free and 5.0 cached files\n"
                                     "       echo 1 > /proc/sys/vm/drop_caches"));
}

TEST_F(PreflightTest, AQuotaDeepInTheTreeIsFound) {
  folder_.WriteLine("proc/self/cgroup", "0::/numoe.slice/w.service");
  folder_.WriteLine("sys/fs/cgroup/numoe.slice/w.service/cpu.max", "50000 100000");
  EXPECT_THAT(Bad(), HasSubstr("the cgroup may use 0.50 CPUs on average"));
}

TEST_F(PreflightTest, AQuotaOfAllCpusIsGood) {
  folder_.WriteLine("proc/self/status", "Cpus_allowed_list:\t0-3");
  folder_.WriteLine("sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_EQ(Bad(), "");
  folder_.WriteLine("sys/fs/cgroup/cpu.max", "350000 100000");
  EXPECT_THAT(Bad(), HasSubstr("the cgroup may use 3.50 CPUs on average"));
}

TEST_F(PreflightTest, WeightsThatMayBeDemotedAreFound) {
  folder_.WriteLine("sys/kernel/mm/numa/demotion_enabled", "false");
  EXPECT_EQ(Bad(), "");
  folder_.WriteLine("sys/kernel/mm/numa/demotion_enabled", "true");
  EXPECT_THAT(Bad(), HasSubstr("/sys/kernel/mm/numa/demotion_enabled is true"));
}

TEST_F(PreflightTest, MemoryPoliciesAreNotNeededIfMemoryIsLocalAnyway) {
  folder_.WriteLine("sys/devices/system/node/node1/cpulist", "4-7");
  folder_.WriteLine("proc/self/status", "Cpus_allowed_list:\t4-5\nMems_allowed_list:\t1");
  const Finding finding = CheckPolicies(folder_.path());
  EXPECT_TRUE(finding.good);
  EXPECT_THAT(finding.what, HasSubstr("memory comes from the nodes of this process's CPUs only"));
}

TEST_F(PreflightTest, LimitsOfTheProcessAreFound) {
  folder_.WriteLine("proc/self/limits",
                    "Limit                     Soft Limit           Hard Limit           Units     \n"
                    "Max open files            256                  1048576              files     \n"
                    "Max locked memory         65536                65536                bytes     ");
  const std::string bad = Bad();
  EXPECT_THAT(bad, HasSubstr("256 files may be open\n       ulimit -n 1024"));
  EXPECT_THAT(bad, HasSubstr("64 KiB of memory may be locked\n       ulimit -l 8192"));
  folder_.WriteLine("proc/self/limits",
                    "Max open files            1024                 1048576              files     \n"
                    "Max locked memory         unlimited            unlimited            bytes     ");
  EXPECT_EQ(Bad(), "");
}

TEST_F(PreflightTest, ASmallSharedMemoryMountIsNotAProblem) {
  std::filesystem::create_directories(std::filesystem::path(folder_.path()) / "dev/shm");
  EXPECT_EQ(Bad(), "");
  EXPECT_THAT(ToString(CheckSettings(folder_.path(), true)), HasSubstr("/dev/shm has "));
}

TEST_F(PreflightTest, MemoryIsComparedWithTheWeights) {
  folder_.WriteLine("sys/fs/cgroup/memory.max", "4294967296");
  folder_.WriteLine("sys/fs/cgroup/memory.current", "1073741824");
  folder_.WriteLine("sys/fs/cgroup/memory.stat", "active_file 0\ninactive_file 0");
  const auto bad = [&](uint64_t weights) {
    std::vector<std::string> checks;
    for (const Finding& f : MemoryFor({{.needs = {.weight_bytes = weights}, .nodes = {1}}}))
      if (!f.good) checks.push_back(f.check);
    return checks;
  };
  EXPECT_THAT(bad(uint64_t{2} << 30), IsEmpty());
  EXPECT_THAT(bad(uint64_t{3} << 30), ElementsAre("memory_available"));
  EXPECT_THAT(bad(uint64_t{4} << 30), ElementsAre("memory_limit", "memory_available"));
  folder_.WriteLine("sys/fs/cgroup/memory.max", "max");
  EXPECT_THAT(MemoryFor({{.needs = {.weight_bytes = uint64_t{4} << 30}, .nodes = {1}}}), IsEmpty());
}

TEST_F(PreflightTest, MemoryIsComparedWithTheWorkersNodes) {
  folder_.WriteLine("proc/meminfo", "MemAvailable: 67108864 kB");
  for (const char* node : {"0", "1"}) {
    const std::string line = std::string("Node ") + node + " ";
    folder_.WriteLine(std::string("sys/devices/system/node/node") + node + "/meminfo",
                      line + "MemTotal: 33554432 kB\n" + line +
                          "MemFree: " + (*node == '0' ? "31457280" : "4194304") + " kB\n" + line +
                          "FilePages: 2097152 kB\n" + line + "Shmem: 2097152 kB\n" + line +
                          "Active(file): 0 kB");
  }
  const auto bad = [&](const std::vector<WorkerOnNodes>& workers) {
    std::vector<Finding> findings;
    for (Finding& f : MemoryFor(workers))
      if (!f.good) findings.push_back(std::move(f));
    return ToString(findings);
  };
  constexpr uint64_t kGib = uint64_t{1} << 30;
  EXPECT_EQ(bad({{.needs = {.weight_bytes = 8 * kGib}, .nodes = {0}}}), "");
  EXPECT_EQ(bad({{.needs = {.weight_bytes = 2 * kGib}, .nodes = {1}}}), "");
  EXPECT_THAT(
      bad({{.needs = {.weight_bytes = 8 * kGib}, .nodes = {1}}}),
      HasSubstr("node 1 has 4.00 GiB free and 0.00 GiB in cached files that the kernel can give up, of "
                "32.00 GiB, the worker needs 8.25"));
  EXPECT_EQ(bad({{.needs = {.weight_bytes = 8 * kGib}, .nodes = {0, 1}}}), "");
  // Workers of one node add up, those of two do not.
  EXPECT_EQ(bad({{.needs = {.weight_bytes = 20 * kGib}, .nodes = {0}},
                 {.needs = {.weight_bytes = 2 * kGib}, .nodes = {1}}}),
            "");
  EXPECT_THAT(bad({{.needs = {.weight_bytes = 20 * kGib}, .nodes = {0}},
                   {.needs = {.weight_bytes = 20 * kGib}, .nodes = {0}}}),
              HasSubstr("its workers need 40.50"));
}

TEST_F(PreflightTest, MailboxesCountAsAtTheStart) {
  folder_.WriteLine("proc/meminfo", "MemAvailable: 4194304 kB");
  const auto fits = [&](uint64_t mailbox_bytes, size_t workers) {
    const WorkerNeeds needs{.weight_bytes = uint64_t{3} << 30, .mailbox_bytes = mailbox_bytes};
    const WorkerOnNodes worker{.needs = needs, .nodes = {}};
    const std::vector<Finding> findings = MemoryFor(std::vector<WorkerOnNodes>(workers, worker));
    EXPECT_EQ(findings.size(), 1u);
    return findings.front().check == "memory_available" && findings.front().good;
  };
  constexpr uint64_t kLeft = (uint64_t{1} << 30) - kWorkerBytesBesideWeights;
  EXPECT_TRUE(fits(kLeft, 1));
  EXPECT_FALSE(fits(kLeft + 1, 1));
  EXPECT_FALSE(fits(0, 2)) << "workers of one host add up";
}

TEST_F(PreflightTest, ReservationsThatCannotBeReadAreFound) {
  folder_.WriteLine("reservations", "no folder");
  const std::vector<Finding> findings =
      MemoryFor({{.needs = {.weight_bytes = uint64_t{1} << 30}, .nodes = {}}});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(findings.front().good);
  EXPECT_THAT(findings.front().what, HasSubstr("--memory-reservations: "));
  EXPECT_THAT(findings.front().advice, HasSubstr("expected a folder"));
}

TEST(PreflightOfThisMachineTest, NamesNodesAndInstructionSets) {
  const TemporaryFolder folder;
  const std::string text = ToString(Preflight(
      {}, {{.needs = {.weight_bytes = uint64_t{1} << 60}, .nodes = {}}}, (folder.path() / "r").string()));
  EXPECT_THAT(text, HasSubstr("node "));
  EXPECT_THAT(text, HasSubstr("64 MiB written from node "));
  EXPECT_THAT(text, HasSubstr("weights are read by "));
  EXPECT_THAT(text, HasSubstr("scalar yes"));
  EXPECT_THAT(text, HasSubstr("the worker takes 1073741824.25 GiB"));  // more than any machine has
}

}  // namespace
}  // namespace numoe::worker
