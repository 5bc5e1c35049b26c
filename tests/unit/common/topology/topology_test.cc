// Topologies that this machine does not have (hwloc's synthetic ones), cuts by cpuset and memory nodes, and
// placement.
#include "common/topology/topology.h"

#include <sched.h>

#include <algorithm>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

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

TEST(TopologyTest, NodesKnowTheirSocket) {
  std::vector<int> packages;
  for (const NumaNode& node : Synthetic("pack:2 numa:2 core:2 pu:1").nodes) packages.push_back(node.package);
  EXPECT_THAT(packages, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(Synthetic("numa:2 core:2 pu:1").nodes[1].package, -1);
}

TEST(TopologyTest, OneThreadOfEachCoreComesFirst) {
  EXPECT_THAT(Synthetic("numa:1 core:3 pu:2").nodes[0].cpus, ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(TopologyTest, ACpusetCutsTheNodes) {
  const Topology topology = Synthetic("pack:2 numa:1 core:4 pu:1", {.cpus = {2, 3, 5}});
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_THAT(topology.nodes[0].cpus, ElementsAre(2, 3));
  EXPECT_THAT(topology.nodes[1].cpus, ElementsAre(5));
}

TEST(TopologyTest, ANodeWithoutUsableCpusIsLeftOutAndNamed) {
  const Topology topology = Synthetic("pack:2 numa:1 core:4 pu:1", {.cpus = {4, 6}});
  ASSERT_EQ(topology.nodes.size(), 1u);
  EXPECT_EQ(topology.nodes[0].os_index, 1);
  EXPECT_THAT(topology.nodes[0].cpus, ElementsAre(4, 6));
  EXPECT_THAT(topology.warnings, ElementsAre("node 0 is left out: none of its CPUs may be used"));
}

TEST(TopologyTest, ANodeWithoutUsableMemoryIsLeftOutAndNamed) {
  const Topology topology = Synthetic("pack:4 numa:1 core:1 pu:1", {.mems = "0,2-3"});
  ASSERT_EQ(topology.nodes.size(), 3u);
  EXPECT_EQ(topology.nodes[1].os_index, 2);
  EXPECT_THAT(topology.warnings, ElementsAre("node 1 is left out: its memory may not be used"));
}

TEST(TopologyTest, TwoMemoriesOfOneSocketAreOneHome) {
  const Topology topology = Synthetic("pack:2 [numa] [numa] core:2 pu:1");
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_THAT(topology.nodes[0].cpus, ElementsAre(0, 1));
  EXPECT_THAT(topology.nodes[1].cpus, ElementsAre(2, 3));
  ASSERT_EQ(topology.warnings.size(), 2u);
  EXPECT_THAT(topology.warnings[0], HasSubstr("it has the CPUs of node"));
}

TEST(TopologyTest, NothingLeftSaysWhy) {
  const auto topology = SyntheticTopology("pack:2 numa:1 core:2 pu:1", {.cpus = {0, 1}, .mems = "1"});
  ASSERT_FALSE(topology.ok());
  EXPECT_THAT(topology.status().ToString(), HasSubstr("no NUMA node has both CPUs and memory"));
  EXPECT_THAT(topology.status().ToString(), HasSubstr("node 0 is left out: its memory may not be used"));
}

TEST(TopologyTest, BadDescriptionsAreErrors) {
  EXPECT_THAT(SyntheticTopology("banana:2").status().ToString(),
              HasSubstr("\"banana:2\" is not an hwloc synthetic"));
  EXPECT_THAT(SyntheticTopology("numa:1 pu:1", {.mems = "x"}).status().ToString(),
              HasSubstr("\"x\" is no list"));
}

TEST(TopologyTest, DetectionObeysTheAffinityOfItsThread) {
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

TEST(PlacementTest, EachWorkerHasANodeOfItsOwn) {
  const Topology topology = Synthetic("pack:2 numa:1 core:4 pu:1");
  EXPECT_THAT(Plan(topology, {.worker_index = 0, .worker_count = 2}).cpus, ElementsAre(0, 1, 2, 3));
  const Placement second = Plan(topology, {.worker_index = 1, .worker_count = 2});
  EXPECT_THAT(second.nodes, ElementsAre(1));
  EXPECT_THAT(second.cpus, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(second.why, "node 1, shared by 1 worker");
}

TEST(PlacementTest, WorkersOfOneNodeDivideItsCpus) {
  for (const char* machine :
       {"numa:1 core:6 pu:1", "pack:2 numa:1 core:7 pu:1", "pack:3 numa:1 core:2 pu:2"}) {
    const Topology topology = Synthetic(machine);
    size_t available = 0;
    for (const NumaNode& node : topology.nodes) available += node.cpus.size();
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
        EXPECT_EQ(used.size(), available) << machine << ": " << workers << " workers leave CPUs idle";
      }
    }
  }
}

TEST(PlacementTest, MoreWorkersThanCpusStillHaveOneEach) {
  const Topology topology = Synthetic("numa:1 core:2 pu:1");
  for (int w = 0; w < 9; ++w)
    EXPECT_EQ(Plan(topology, {.worker_index = w, .worker_count = 9}).cpus.size(), 1u);
}

TEST(PlacementTest, AskedThreadsAndNodesAreObeyed) {
  const Topology topology = Synthetic("pack:2 numa:1 core:4 pu:1");
  const Placement plan = Plan(topology, {.worker_index = 0, .worker_count = 2, .nodes = {1}, .threads = 6});
  EXPECT_THAT(plan.nodes, ElementsAre(1));
  EXPECT_THAT(plan.cpus, ElementsAre(4, 5, 6, 7, 4, 5));
  EXPECT_EQ(plan.why, "6 threads asked for on node 1");
  EXPECT_THAT(Plan(topology, {.worker_index = 1, .worker_count = 2, .nodes = {0}}).cpus,
              ElementsAre(0, 1, 2, 3));
}

TEST(PlacementTest, WorkersOfOneNodeWithAskedThreadsStillStartApart) {
  const Topology topology = Synthetic("numa:1 core:8 pu:1");
  EXPECT_THAT(Plan(topology, {.worker_index = 0, .worker_count = 2, .threads = 3}).cpus,
              ElementsAre(0, 1, 2));
  EXPECT_THAT(Plan(topology, {.worker_index = 1, .worker_count = 2, .threads = 3}).cpus,
              ElementsAre(4, 5, 6));
}

// Two sockets of two sub-NUMA clusters with three cores of two hyperthreads: a worker for each socket.
TEST(PlacementTest, AWorkerOnSeveralNodesTakesTurnsBetweenThem) {
  const Topology clusters = Synthetic("pack:2 numa:2 core:3 pu:2");
  ASSERT_EQ(clusters.nodes.size(), 4u);
  const Placement second = Plan(clusters, {.worker_index = 1, .worker_count = 2, .nodes = {3, 2}});
  EXPECT_THAT(second.nodes, ElementsAre(2, 3));
  EXPECT_THAT(second.cpus, ElementsAre(12, 18, 14, 20, 16, 22, 13, 19, 15, 21, 17, 23));
  EXPECT_EQ(second.memory_bytes, clusters.nodes[2].memory_bytes + clusters.nodes[3].memory_bytes);
  EXPECT_EQ(second.why, "nodes 2, 3, shared by 1 worker");
  EXPECT_THAT(Plan(clusters, {.nodes = {0, 1}, .threads = 4}).cpus, ElementsAre(0, 6, 2, 8));
}

TEST(PlacementTest, NodesOfUnequalSizeAreUsedWhole) {
  const Topology topology = Synthetic("pack:2 numa:1 core:4 pu:1", {.cpus = {1, 4, 5, 6}});
  EXPECT_THAT(Plan(topology, {.nodes = {0, 1}}).cpus, ElementsAre(1, 4, 5, 6));
}

TEST(PlacementTest, WhatIsOutOfRangeIsNamed) {
  EXPECT_THAT(PlanError({.nodes = {2}}), HasSubstr("--numa-nodes=2: expected each once, of 0,1"));
  EXPECT_THAT(PlanError({.nodes = {0, -2}}), HasSubstr("--numa-nodes=0,-2"));
  EXPECT_THAT(PlanError({.nodes = {1, 1}}), HasSubstr("--numa-nodes=1,1: expected each once"));
  EXPECT_THAT(PlanError({.worker_index = 2, .worker_count = 2}),
              HasSubstr("--worker-index=2: expected 0 to 1"));
  EXPECT_THAT(PlanError({.worker_index = -1}), HasSubstr("--worker-index=-1"));
  EXPECT_THAT(PlanError({.worker_count = 0}), HasSubstr("--worker-count=0"));
  EXPECT_THAT(PlanError({.threads = -4}), HasSubstr("--threads=-4"));
  EXPECT_THAT(PlanError({.threads = 1 << 30}), HasSubstr("--threads=1073741824"));
}

}  // namespace
}  // namespace numoe
