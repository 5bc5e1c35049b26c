// Pinning on made-up file trees: what Kubernetes, systemd and a plain machine give a process, right and
// wrong.
#include "expert_worker/preflight/pinning.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two sockets of eight CPUs.
class PinningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.WriteLine("sys/devices/system/cpu/online", "0-15");
    folder_.WriteLine("sys/devices/system/node/node0/cpulist", "0-3,8-11");
    folder_.WriteLine("sys/devices/system/node/node1/cpulist", "4-7,12-15");
    folder_.WriteLine("sys/devices/system/node/possible", "0-1");
  }
  void Allow(const std::string& cpus, const std::string& mems) {
    folder_.WriteLine("proc/self/status", "Name:\tx\nCpus_allowed:\tffff\nCpus_allowed_list:\t" + cpus +
                                              "\nMems_allowed:\t3\nMems_allowed_list:\t" + mems);
  }
  std::vector<std::string> Bad(const PinningRequest& request = {}) const {
    std::vector<std::string> checks;
    for (const Finding& f : CheckPinning(folder_.path(), request)) {
      EXPECT_EQ(f.good, f.advice.empty()) << f.what;
      if (!f.good) checks.push_back(f.check);
    }
    return checks;
  }
  std::string Refusal(const PinningRequest& request = {}) const {
    return std::string(RequirePinning(CheckPinning(folder_.path(), request)).message());
  }
  TemporaryFolder folder_;
};

TEST_F(PinningTest, NothingIsReportedIfTheKernelDoesNotSay) {
  EXPECT_THAT(CheckPinning(folder_.path(), {}), IsEmpty());
  EXPECT_THAT(NodesOfOwnCpus(folder_.path()), IsEmpty());
  Allow("what?", "0");
  EXPECT_THAT(CheckPinning(folder_.path(), {}), IsEmpty());
}

TEST_F(PinningTest, ExclusiveCpusOfOneNodeAreGood) {
  Allow("1-3,9-11", "0");
  folder_.WriteLine("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_THAT(Bad(), IsEmpty());
  EXPECT_THAT(Bad({.exclusive_cpus = 6}), IsEmpty());
  EXPECT_EQ(CheckPinning(folder_.path(), {}).size(), 3u);
  EXPECT_TRUE(RequirePinning(CheckPinning(folder_.path(), {})).ok());
  EXPECT_THAT(NodesOfOwnCpus(folder_.path()), ElementsAre(0));
}

TEST_F(PinningTest, TheSharedPoolIsFoundByItsNumber) {
  Allow("1-15", "0-1");
  EXPECT_THAT(Bad({.exclusive_cpus = 6}), ElementsAre("cpus_exclusive", "cpus_one_node"));
  EXPECT_THAT(
      Refusal({.exclusive_cpus = 6}),
      HasSubstr("--pinning required: 15 CPUs (1-15), but 6 were promised: these are the shared CPUs; "));
}

TEST_F(PinningTest, AQuotaMeansShared) {
  Allow("0-3", "0");
  folder_.WriteLine("sys/fs/cgroup/cpu.max", "350000 100000");
  EXPECT_THAT(Bad(), ElementsAre("cpus_exclusive"));
  EXPECT_THAT(Refusal(), HasSubstr("4 CPUs (0-3) with a quota of 3.50: shared with other processes"));
}

// Guaranteed pods before Kubernetes 1.33 have exclusive CPUs and a quota of these CPUs' time.
TEST_F(PinningTest, AQuotaOfAllCpusLimitsNothing) {
  Allow("0-3", "0");
  folder_.WriteLine("sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_THAT(Bad(), IsEmpty());
  EXPECT_THAT(Bad({.exclusive_cpus = 4}), IsEmpty());
  folder_.WriteLine("sys/fs/cgroup/cpu.max", "350000 100000");
  EXPECT_THAT(Bad({.exclusive_cpus = 4}), ElementsAre("cpus_exclusive"));
}

// CPUQuota= of a unit, and of the slice around it: the process sees the whole tree, whose root has no quota.
TEST_F(PinningTest, AQuotaOfTheOwnGroupOrOneAroundItCounts) {
  Allow("0-3", "0");
  folder_.WriteLine("proc/self/cgroup", "0::/numoe.slice/numoe-expert-worker@0.service");
  folder_.WriteLine("sys/fs/cgroup/numoe.slice/numoe-expert-worker@0.service/cpu.max", "50000 100000");
  EXPECT_THAT(Bad(), ElementsAre("cpus_exclusive"));
  EXPECT_THAT(Refusal(), HasSubstr("with a quota of 0.50: shared with other processes"));
  folder_.WriteLine("sys/fs/cgroup/numoe.slice/cpu.max", "25000 100000");
  EXPECT_THAT(Refusal(), HasSubstr("with a quota of 0.25: shared with other processes"))
      << "the smallest one counts";
  folder_.WriteLine("proc/self/cgroup", "0::/elsewhere");
  EXPECT_THAT(Bad(), IsEmpty());
}

TEST_F(PinningTest, TheWholeMachineIsShared) {
  Allow("0-15", "0-1");
  EXPECT_THAT(Bad({.any_nodes = true}), ElementsAre("cpus_exclusive"));
  EXPECT_THAT(Refusal({.any_nodes = true}), HasSubstr("all CPUs of the machine"));
  EXPECT_THAT(Refusal({.any_nodes = true}), HasSubstr("say so with --exclusive-cpus=16"));
  // Unless it was promised, as for a virtual machine that is assigned as a whole.
  EXPECT_THAT(Bad({.any_nodes = true, .exclusive_cpus = 16}), IsEmpty());
}

TEST_F(PinningTest, CpusOfSeveralNodesNeedAllOfThemAskedFor) {
  Allow("2-5", "0-1");
  EXPECT_THAT(Bad(), ElementsAre("cpus_one_node"));
  EXPECT_THAT(Refusal(), HasSubstr("its CPUs are on nodes 0-1; CPUs of one node for one worker"));
  EXPECT_THAT(Bad({.nodes = {0}}), ElementsAre("cpus_one_node"));
  EXPECT_THAT(Bad({.nodes = {0, 1}}), IsEmpty());
  EXPECT_THAT(Bad({.any_nodes = true}), IsEmpty());
}

TEST_F(PinningTest, MemoryOfOtherNodesAloneIsWrong) {
  Allow("1-3", "1");
  EXPECT_THAT(Bad(), ElementsAre("memory_nodes"));
  EXPECT_THAT(Refusal(), HasSubstr("memory may come from node 1, CPUs are on 0"));
  Allow("1-3", "0-1");  // the first touch decides
  EXPECT_THAT(Bad(), IsEmpty());
}

TEST_F(PinningTest, AnInheritedPolicyForMemoryOfOtherNodesIsWrong) {
  Allow("4-7", "0-1");
  const auto start_with = [&](const std::string& policy) {
    folder_.WriteLine("proc/self/numa_maps",
                      "563572f02000 " + policy + " file=/usr/bin/x mapped=2 N0=2 kernelpagesize_kB=4");
  };
  for (const char* const policy : {"default", "local", "bind:1", "bind:0-1", "prefer:1", "prefer (many):1"}) {
    start_with(policy);
    EXPECT_THAT(Bad(), IsEmpty()) << policy;
  }
  for (const char* const policy : {"bind:0", "bind=static:0", "prefer:0", "prefer (many):0-1",
                                   "interleave:0-1", "weighted interleave:0-1"}) {
    start_with(policy);
    EXPECT_THAT(Bad(), ElementsAre("memory_policy")) << policy;
  }
  start_with("bind:0");
  EXPECT_THAT(Refusal(),
              HasSubstr("--pinning required: this process was started with the memory policy bind:0, "
                        "CPUs are on 1; start it without numactl's --membind"));
  start_with("interleave:0-1");
  EXPECT_THAT(Bad({.nodes = {0, 1}}), IsEmpty());
}

TEST(NodeClaimTest, ANodeHasOneWorkerUntilThatIsGone) {
  constexpr int kNode = 54'321;  // a node that no machine has, so that no real worker is counted
  {
    const absl::StatusOr<NodeClaim> first = NodeClaim::Take({kNode, kNode + 1});
    ASSERT_TRUE(first.ok()) << first.status();
    const absl::StatusOr<NodeClaim> second = NodeClaim::Take({kNode + 1});
    EXPECT_THAT(std::string(second.status().message()), HasSubstr("another worker runs on node 54322"));
    EXPECT_TRUE(NodeClaim::Take({kNode + 2}).ok());
  }
  EXPECT_TRUE(NodeClaim::Take({kNode + 1}).ok());
}

}  // namespace
}  // namespace numoe::worker
