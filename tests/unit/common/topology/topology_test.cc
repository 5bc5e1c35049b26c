// Synthetic topologies of hwloc, restriction to a cpuset and to memory nodes, and the placement of workers.
#include "common/topology/topology.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Topology Synthetic(std::string_view description, const TopologyCut& cut = {}) {
  absl::StatusOr<Topology> topology = SyntheticTopology(description, cut);
  EXPECT_TRUE(topology.ok()) << topology.status();
  return topology.ok() ? *std::move(topology) : Topology{};
}

Placement Plan(const Topology& topology, const PlacementRequest& request) {
  const absl::StatusOr<Placement> plan = PlanPlacement(topology, request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(Placement{});
}

std::string PlanError(const PlacementRequest& request) {
  return PlanPlacement(Synthetic("pack:2 numa:1 core:4 pu:1"), request).status().ToString();
}

TEST(TopologyTest, TwoSockets) {
  const Topology topology = Synthetic("pack:2 [numa(memory=8589934592)] core:4 pu:1");
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_THAT(topology.nodes[0].cpus, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(topology.nodes[1].cpus, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(topology.nodes[1].memory_bytes, uint64_t{8} << 30);
  EXPECT_THAT(topology.warnings, IsEmpty());
  EXPECT_TRUE(topology.synthetic);
  EXPECT_EQ(topology.ToString(), "2 nodes; node 0: 4 cpus, 8.0 GiB; node 1: 4 cpus, 8.0 GiB");
}

TEST(TopologyTest, SubNumaClustersAreNodes) {
  EXPECT_EQ(Synthetic("pack:2 numa:3 core:2 pu:1").nodes.size(), 6u);
}

TEST(TopologyTest, EachNodeHasItsSocketsNumber) {
  std::vector<int> packages;
  for (const NumaNode& node : Synthetic("pack:2 numa:2 core:2 pu:1").nodes) packages.push_back(node.package);
  EXPECT_THAT(packages, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(Synthetic("numa:2 core:2 pu:1").nodes[1].package, -1);
}

TEST(TopologyTest, OneThreadOfEachCoreComesFirst) {
  EXPECT_THAT(Synthetic("numa:1 core:3 pu:2").nodes[0].cpus, ElementsAre(0, 2, 4, 1, 3, 5));
  // Some virtual machines show a first-level cache for each hyperthread.
  EXPECT_THAT(Synthetic("numa:1 core:2 l1d:2 pu:1").nodes[0].cpus, ElementsAre(0, 2, 1, 3));
  // If a core's first hyperthread may not be used, its second one counts as the first.
  EXPECT_THAT(Synthetic("numa:1 core:3 pu:2", {.cpus = {1, 2, 3}}).nodes[0].cpus, ElementsAre(1, 2, 3));
}

TEST(TopologyTest, OfflineCpusAreListed) {
  const TemporaryFolder folder;
  EXPECT_EQ(OfflineCpus(folder.path()), "") << "the kernel does not tell";
  const std::filesystem::path cpus = folder.path() / "sys/devices/system/cpu";
  std::filesystem::create_directories(cpus);
  std::ofstream(cpus / "present") << "0-3\n";
  std::ofstream(cpus / "online") << "0-3\n";
  EXPECT_EQ(OfflineCpus(folder.path()), "");
  std::ofstream(cpus / "online") << "0-1\n";
  EXPECT_EQ(OfflineCpus(folder.path()), "2-3");
}

TEST(TopologyTest, ACpusetRestrictsTheCpusOfTheNodes) {
  const Topology topology = Synthetic("pack:2 numa:1 core:4 pu:1", {.cpus = {2, 3, 5}});
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_THAT(topology.nodes[0].cpus, ElementsAre(2, 3));
  EXPECT_THAT(topology.nodes[1].cpus, ElementsAre(5));
}

TEST(TopologyTest, ANodeWithoutUsableCpusIsLeftOutWithANote) {
  const Topology topology = Synthetic("pack:2 numa:1 core:4 pu:1", {.cpus = {4, 6}});
  ASSERT_EQ(topology.nodes.size(), 1u);
  EXPECT_EQ(topology.nodes[0].os_index, 1);
  EXPECT_THAT(topology.nodes[0].cpus, ElementsAre(4, 6));
  EXPECT_THAT(topology.notes,
              ElementsAre("node 0 is left to other processes: this one may not use any of its CPUs"));
  EXPECT_THAT(topology.warnings, IsEmpty()) << "an operator may intend a cpuset of one node";
  EXPECT_TRUE(topology.confined);
}

TEST(TopologyTest, ANodeWithoutUsableMemoryIsLeftOutWithAWarning) {
  const Topology topology = Synthetic("pack:4 numa:1 core:1 pu:1", {.mems = "0,2-3"});
  ASSERT_EQ(topology.nodes.size(), 3u);
  EXPECT_EQ(topology.nodes[1].os_index, 2);
  EXPECT_THAT(topology.warnings,
              ElementsAre("node 1 is left out: this process may use its CPUs, but not its memory"));
}

TEST(TopologyTest, ASecondMemoryNodeOfASocketIsMemoryOnly) {
  const Topology topology = Synthetic("pack:2 [numa] [numa] core:2 pu:1");
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_THAT(topology.nodes[0].cpus, ElementsAre(0, 1));
  EXPECT_THAT(topology.nodes[1].cpus, ElementsAre(2, 3));
  EXPECT_EQ(topology.memory_only.size(), 2u);
  ASSERT_EQ(topology.notes.size(), 2u);
  EXPECT_THAT(topology.notes[0], HasSubstr("has no CPUs of its own, only memory"));
  EXPECT_THAT(topology.warnings, IsEmpty()) << "this is not a problem";
}

TEST(TopologyTest, AMachineWithoutUsableNodesIsAnErrorWithTheReasons) {
  const auto topology = SyntheticTopology("pack:2 numa:1 core:2 pu:1", {.cpus = {0, 1}, .mems = "1"});
  ASSERT_FALSE(topology.ok());
  EXPECT_THAT(topology.status().ToString(), HasSubstr("no NUMA node has both CPUs and memory"));
  EXPECT_THAT(topology.status().ToString(),
              HasSubstr("node 0 is left out: this process may use its CPUs, but not its memory"));
  // With CPUs of node 1 and memory of node 0, the operator has to be told about node 1.
  const auto crossed = SyntheticTopology("pack:2 numa:1 core:2 pu:1", {.cpus = {2, 3}, .mems = "0"});
  ASSERT_FALSE(crossed.ok());
  EXPECT_THAT(crossed.status().ToString(),
              HasSubstr("node 1 is left out: this process may use its CPUs, but not its memory"));
}

TEST(TopologyTest, InvalidDescriptionsAreErrors) {
  EXPECT_THAT(SyntheticTopology("banana:2").status().ToString(),
              HasSubstr("\"banana:2\" is not a synthetic description"));
  EXPECT_THAT(SyntheticTopology("numa:1 pu:1", {.mems = "x"}).status().ToString(),
              HasSubstr("\"x\" is not a list"));
}

TEST(TopologyTest, DetectionUsesTheAffinityOfTheCallingThread) {
  const absl::StatusOr<Topology> whole = DetectTopology();
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_GT(whole->nodes[0].memory_bytes, 0u);
  const int cpu = whole->nodes[0].cpus.back();
  std::thread([cpu] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    const absl::StatusOr<Topology> cut = DetectTopology();
    ASSERT_TRUE(cut.ok()) << cut.status();
    ASSERT_EQ(cut->nodes.size(), 1u);
    EXPECT_THAT(cut->nodes[0].cpus, ElementsAre(cpu));
  }).join();
}

TEST(PlacementTest, EachWorkerGetsANodeOfItsOwn) {
  const Topology topology = Synthetic("pack:2 numa:1 core:4 pu:1");
  EXPECT_THAT(Plan(topology, {.worker_index = 0, .worker_count = 2}).cpus, ElementsAre(0, 1, 2, 3));
  const Placement second = Plan(topology, {.worker_index = 1, .worker_count = 2});
  EXPECT_THAT(second.nodes, ElementsAre(1));
  EXPECT_THAT(second.cpus, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(second.why, "node 1, used by 1 worker");
}

TEST(PlacementTest, WorkersOnOneNodeDivideItsCpus) {
  for (const char* machine :
       {"numa:1 core:6 pu:1", "pack:2 numa:1 core:7 pu:1", "pack:3 numa:1 core:2 pu:2"}) {
    const Topology topology = Synthetic(machine);
    size_t available = 0;
    for (const NumaNode& node : topology.nodes)
      available += std::set<int>(node.cores.begin(), node.cores.end()).size();
    for (int workers = 1; workers <= 6; ++workers) {
      std::multiset<int> used;
      for (int w = 0; w < workers; ++w) {
        const Placement plan = Plan(topology, {.worker_index = w, .worker_count = workers});
        EXPECT_FALSE(plan.cpus.empty()) << machine << " worker " << w << " of " << workers;
        ASSERT_EQ(plan.nodes.size(), 1u);
        const std::vector<int>& node = topology.nodes[static_cast<size_t>(plan.nodes[0])].cpus;
        for (const int cpu : plan.cpus) EXPECT_NE(std::find(node.begin(), node.end(), cpu), node.end());
        used.insert(plan.cpus.begin(), plan.cpus.end());
      }
      for (const int cpu : used)
        EXPECT_EQ(used.count(cpu), 1u) << machine << ": two of " << workers << " share " << cpu;
      if (workers >= static_cast<int>(topology.nodes.size())) {
        EXPECT_EQ(used.size(), available) << machine << ": " << workers << " workers leave cores idle";
      }
    }
  }
}

TEST(PlacementTest, TheOnlyWorkerOfACpusetTakesAllOfIt) {
  const Topology cut = Synthetic("pack:2 numa:1 core:4 pu:1", {.cpus = {4, 5, 6, 7}});
  const Placement plan = Plan(cut, {.worker_index = 1, .worker_count = 2});
  EXPECT_THAT(plan.cpus, ElementsAre(4, 5, 6, 7));
  EXPECT_TRUE(plan.asks) << "other workers may have the same CPUs";
  EXPECT_TRUE(plan.own);
  EXPECT_EQ(plan.left, 0);
  EXPECT_EQ(plan.why, "node 1, the only worker on the CPUs that it may use");
  EXPECT_EQ(Plan(cut, {.worker_index = 7, .worker_count = 8, .threads = 2}).cpus.size(), 2u);
  // Workers share all CPUs of a machine with one node, unless the operator promises that a worker is alone.
  const Topology whole = Synthetic("numa:1 core:4 pu:1");
  EXPECT_FALSE(whole.confined);
  EXPECT_EQ(Plan(whole, {.worker_index = 1, .worker_count = 2}).cpus.size(), 2u);
  EXPECT_FALSE(Plan(whole, {.worker_index = 1, .worker_count = 2}).asks);
  EXPECT_THAT(Plan(whole, {.worker_index = 1, .worker_count = 2, .alone = true}).cpus,
              ElementsAre(0, 1, 2, 3));
}

// A cpuset may contain several workers: LXC, Slurm, a container or a slice with all daemons.
TEST(PlacementTest, TheWorkersFoundInACpusetDivideItsCpus) {
  const Topology cut = Synthetic("pack:2 numa:1 core:4 pu:2", {.cpus = {8, 9, 10, 11, 12, 13, 14, 15}});
  PlacementRequest request{.worker_index = 1, .worker_count = 4};
  request.found = CpuShare{.place = 0, .sharing = 2};
  EXPECT_THAT(Plan(cut, request).cpus, ElementsAre(8, 10));
  EXPECT_THAT(Plan(cut, request).why, HasSubstr("node 1, shared by 2 workers"));
  request.found = CpuShare{.place = 1, .sharing = 2};
  EXPECT_THAT(Plan(cut, request).cpus, ElementsAre(12, 14));
  // A promise (`alone`) takes precedence over what was found, and so does --local-workers.
  request.alone = true;
  EXPECT_THAT(Plan(cut, request).cpus, ElementsAre(8, 10, 12, 14));
  EXPECT_FALSE(Plan(cut, request).asks);
  request.alone = false;
  request.local_workers = 4;
  EXPECT_THAT(Plan(cut, request).cpus, ElementsAre(10));
  EXPECT_FALSE(Plan(cut, request).asks);
}

// Four hosts with one worker each, and two hosts with two workers each.
TEST(PlacementTest, WorkersOnOtherHostsTakeNoCpusOfThisOne) {
  const Topology one = Synthetic("numa:1 core:8 pu:1");
  const Placement untold = Plan(one, {.worker_index = 3, .worker_count = 4});
  EXPECT_EQ(untold.cpus.size(), 2u);
  EXPECT_EQ(untold.left, 6) << "this is worth a warning";
  const Placement told = Plan(one, {.worker_index = 3, .worker_count = 4, .local_workers = 1});
  EXPECT_EQ(told.cpus.size(), 7u) << "one core is left to the coordinator";
  EXPECT_EQ(told.left, 0);
  EXPECT_EQ(told.why, "node 0, used by 1 worker; one core is left to the coordinator");
  const Topology two = Synthetic("pack:2 numa:2 core:2 pu:1");
  EXPECT_THAT(Plan(two, {.worker_index = 2, .worker_count = 4, .local_workers = 2}).nodes, ElementsAre(0, 1));
  EXPECT_THAT(Plan(two, {.worker_index = 3, .worker_count = 4, .local_workers = 2}).nodes, ElementsAre(2, 3));
  EXPECT_THAT(Plan(two, {.worker_index = 3, .worker_count = 4, .local_workers = 1}).idle, ElementsAre(2, 3));
  EXPECT_THAT(PlanError({.worker_count = 2, .local_workers = 3}),
              HasSubstr("--local-workers=3: expected at most --worker-count=2"));
}

TEST(PlacementTest, WorkersOnOneNodeNeverShareACore) {
  const Topology topology = Synthetic("numa:1 core:8 pu:2");
  std::set<int> cores;
  for (int worker = 0; worker < 2; ++worker) {
    const Placement plan = Plan(topology, {.worker_index = worker, .worker_count = 2, .threads = 4});
    EXPECT_EQ(plan.cpus.size(), 4u);
    for (const int cpu : plan.cpus) cores.insert(cpu / 2);
    const Placement share = Plan(topology, {.worker_index = worker, .worker_count = 2});
    EXPECT_EQ(share.cpus.size(), 4u) << "one thread for each core";
    for (const int cpu : share.cpus) EXPECT_EQ(cpu / 2 / 4, worker);
  }
  EXPECT_EQ(cores.size(), 8u);
  // With more threads than cores, the second hyperthreads of its own cores come before the cores of others.
  EXPECT_THAT(Plan(topology, {.worker_index = 1, .worker_count = 2, .threads = 9}).cpus,
              ElementsAre(8, 10, 12, 14, 9, 11, 13, 15, 0));
}

TEST(PlacementTest, AQuotaLimitsTheDefaultNumberOfThreads) {
  const Topology topology = Synthetic("numa:1 core:8 pu:1");
  EXPECT_THAT(Plan(topology, {.threads_max = 3}).cpus, ElementsAre(0, 1, 2));
  EXPECT_EQ(Plan(topology, {.threads_max = 20}).cpus.size(), 7u);
  EXPECT_EQ(Plan(topology, {.threads = 5, .threads_max = 3}).cpus.size(), 5u);
}

TEST(PlacementTest, TheDefaultIsOneThreadForEachCore) {
  // With two hyperthreads on each core, the second ones are left to the coordinator, even on reserved CPUs.
  EXPECT_THAT(Plan(Synthetic("numa:1 core:4 pu:2"), {}).cpus, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(Plan(Synthetic("numa:1 core:4 pu:2", {.cpus = {2, 3, 6, 7}}), {}).cpus, ElementsAre(2, 6));
  EXPECT_THAT(Plan(Synthetic("numa:1 core:4 pu:2", {.cpus = {2, 3, 6, 7}}), {.alone = true}).cpus,
              ElementsAre(2, 6));
  // If some cores have one usable hyperthread and some two, each core still gets one thread.
  EXPECT_THAT(Plan(Synthetic("numa:1 core:4 pu:2", {.cpus = {1, 2, 3, 7}}), {}).cpus, ElementsAre(1, 2, 7));
  // With one hyperthread on each core, the coordinator gets a core if there are enough.
  EXPECT_EQ(Plan(Synthetic("numa:1 core:7 pu:1"), {}).cpus.size(), 7u);
  EXPECT_THAT(Plan(Synthetic("numa:1 core:8 pu:1"), {}).cpus, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(Plan(Synthetic("pack:2 numa:1 core:16 pu:1"), {.worker_count = 2}).cpus.size(), 15u);
  const Topology reserved = Synthetic("numa:1 core:16 pu:1", {.cpus = {4, 5, 6, 7, 8, 9, 10, 11}});
  EXPECT_EQ(Plan(reserved, {.alone = true}).cpus.size(), 8u) << "the coordinator has other CPUs";
}

TEST(ComputeCpusTest, ThreadsTakeCoresThenHyperthreadsThenShareCpus) {
  const Topology topology = Synthetic("pack:2 numa:1 core:2 pu:2");
  EXPECT_THAT(ComputeCpus(topology.nodes, 0), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(ComputeCpus(topology.nodes, 3), ElementsAre(0, 2, 4));
  EXPECT_THAT(ComputeCpus(topology.nodes, 6), ElementsAre(0, 2, 4, 6, 1, 3));
  EXPECT_THAT(ComputeCpus(topology.nodes, 9), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7, 0));
}

TEST(PlacementTest, CpusAreReservedIfACpusetOrAFlagSelectsThem) {
  EXPECT_FALSE(Plan(Synthetic("numa:1 core:4 pu:1"), {}).own) << "a desktop's coordinator computes there too";
  EXPECT_FALSE(Plan(Synthetic("numa:1 core:4 pu:1"), {.nodes = {0}, .alone = true}).own);
  EXPECT_TRUE(Plan(Synthetic("numa:1 core:4 pu:1", {.cpus = {2, 3}}), {}).own);
  EXPECT_TRUE(Plan(Synthetic("pack:2 numa:1 core:4 pu:1"), {.nodes = {1}}).own);
}

TEST(PlacementTest, FewerWorkersThanNodesAreSpreadOverTheSockets) {
  const Topology clusters = Synthetic("pack:2 numa:2 core:2 pu:1");
  const Placement first = Plan(clusters, {.worker_index = 0, .worker_count = 2});
  EXPECT_THAT(first.nodes, ElementsAre(0, 1));
  EXPECT_THAT(first.cpus, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(first.idle, IsEmpty());
  EXPECT_THAT(Plan(clusters, {.worker_index = 1, .worker_count = 2}).nodes, ElementsAre(2, 3));
  // A single worker stays on one socket, and lists the nodes that it leaves idle.
  const Placement only = Plan(clusters, {});
  EXPECT_THAT(only.nodes, ElementsAre(0, 1));
  EXPECT_THAT(only.idle, ElementsAre(2, 3));
  EXPECT_THAT(Plan(Synthetic("pack:2 numa:1 core:2 pu:1"), {}).nodes, ElementsAre(0));
  // No node has two workers, whatever their number.
  for (int workers = 2; workers <= 6; ++workers) {
    std::multiset<int> nodes;
    const Topology thirds = Synthetic("pack:2 numa:3 core:1 pu:1");
    for (int w = 0; w < workers; ++w) {
      const Placement plan = Plan(thirds, {.worker_index = w, .worker_count = workers});
      nodes.insert(plan.nodes.begin(), plan.nodes.end());
      EXPECT_EQ(plan.node_cpus.size(), plan.nodes.size());
    }
    EXPECT_EQ(std::set<int>(nodes.begin(), nodes.end()).size(), nodes.size()) << workers << " workers";
  }
}

TEST(PlacementTest, MoreWorkersThanCpusStillGetOneCpuEach) {
  const Topology topology = Synthetic("numa:1 core:2 pu:1");
  for (int w = 0; w < 9; ++w)
    EXPECT_EQ(Plan(topology, {.worker_index = w, .worker_count = 9}).cpus.size(), 1u);
}

TEST(PlacementTest, RequestedThreadsAndNodesAreUsed) {
  const Topology topology = Synthetic("pack:2 numa:1 core:4 pu:1");
  const Placement plan = Plan(topology, {.worker_index = 0, .worker_count = 2, .nodes = {1}, .threads = 6});
  EXPECT_THAT(plan.nodes, ElementsAre(1));
  EXPECT_THAT(plan.cpus, ElementsAre(4, 5, 6, 7, 4, 5));
  EXPECT_EQ(plan.why, "node 1, with the requested 6 threads");
  EXPECT_THAT(Plan(topology, {.worker_index = 1, .worker_count = 2, .nodes = {0}}).cpus,
              ElementsAre(0, 1, 2, 3));
}

TEST(PlacementTest, WorkersOnOneNodeWithRequestedThreadsUseDifferentCpus) {
  const Topology topology = Synthetic("numa:1 core:8 pu:1");
  EXPECT_THAT(Plan(topology, {.worker_index = 0, .worker_count = 2, .threads = 3}).cpus,
              ElementsAre(0, 1, 2));
  EXPECT_THAT(Plan(topology, {.worker_index = 1, .worker_count = 2, .threads = 3}).cpus,
              ElementsAre(4, 5, 6));
}

// There are two sockets with two sub-NUMA clusters each, which have three cores with two hyperthreads each,
// and a worker for each socket.
TEST(PlacementTest, AWorkerOnSeveralNodesAlternatesBetweenThem) {
  const Topology clusters = Synthetic("pack:2 numa:2 core:3 pu:2");
  ASSERT_EQ(clusters.nodes.size(), 4u);
  const Placement second = Plan(clusters, {.worker_index = 1, .worker_count = 2, .nodes = {3, 2}});
  EXPECT_THAT(second.nodes, ElementsAre(2, 3));
  EXPECT_THAT(second.cpus, ElementsAre(12, 18, 14, 20, 16, 22));
  EXPECT_EQ(second.why,
            "nodes 2, 3, used by 1 worker; one thread for each core, the other hyperthreads are left to the "
            "coordinator");
  EXPECT_THAT(Plan(clusters, {.nodes = {0, 1}, .threads = 4}).cpus, ElementsAre(0, 6, 2, 8));
}

TEST(PlacementTest, NodesOfUnequalSizeAreUsedCompletely) {
  const Topology topology = Synthetic("pack:2 numa:1 core:4 pu:1", {.cpus = {1, 4, 5, 6}});
  EXPECT_THAT(Plan(topology, {.nodes = {0, 1}}).cpus, ElementsAre(1, 4, 5, 6));
}

TEST(PlacementTest, ErrorsNameTheFlagThatIsOutOfRange) {
  EXPECT_THAT(PlanError({.nodes = {2}}), HasSubstr("--numa-nodes=2: expected each node once, of 0,1"));
  EXPECT_THAT(PlanError({.nodes = {0, -2}}), HasSubstr("--numa-nodes=0,-2"));
  EXPECT_THAT(PlanError({.nodes = {1, 1}}), HasSubstr("--numa-nodes=1,1: expected each node once"));
  EXPECT_THAT(PlanError({.worker_index = 2, .worker_count = 2}),
              HasSubstr("--worker-index=2: expected 0 to 1"));
  EXPECT_THAT(PlanError({.worker_index = -1}), HasSubstr("--worker-index=-1"));
  EXPECT_THAT(PlanError({.worker_count = 0}), HasSubstr("--worker-count=0"));
  EXPECT_THAT(PlanError({.threads = -4}), HasSubstr("--threads=-4"));
  EXPECT_THAT(PlanError({.threads = 1 << 30}), HasSubstr("--threads=1073741824"));
}

}  // namespace
}  // namespace numoe
