// Plans for made-up machines: every slice has a place, and every CPU at most one owner.
#include "expert_worker/supervisor/fleet_plan.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

constexpr const char* kTwoSockets = "pack:2 numa:1 core:4 pu:1";
constexpr const char* kThreeClusters = "pack:2 numa:3 core:2 pu:2";

Topology Machine(const char* description, const TopologyCut& cut = {}) {
  absl::StatusOr<Topology> topology = SyntheticTopology(description, cut);
  EXPECT_TRUE(topology.ok()) << topology.status();
  return topology.value_or(Topology{});
}

FleetPlan Plan(const char* description, FleetRequest request, const TopologyCut& cut = {}) {
  if (request.listen.empty()) request.listen = "unix:/run/m";
  absl::StatusOr<FleetPlan> plan = PlanFleet(Machine(description, cut), request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(FleetPlan{});
}

std::string Refusal(const char* description, FleetRequest request) {
  if (request.listen.empty()) request.listen = "unix:/run/m";
  const absl::StatusOr<FleetPlan> plan = PlanFleet(Machine(description), request);
  EXPECT_FALSE(plan.ok());
  return std::string(plan.status().message());
}

TEST(FleetPlanTest, AWorkerForEachNode) {
  const FleetPlan plan = Plan(kTwoSockets, {.metrics_port = 9090});
  ASSERT_EQ(plan.workers.size(), 2u);
  EXPECT_EQ(plan.worker_count, 2);
  EXPECT_EQ(plan.workers[1].index, 1);
  EXPECT_EQ(plan.workers[1].listen, "unix:/run/m/worker-1.sock");
  EXPECT_EQ(plan.workers[1].metrics_port, 9091);
  EXPECT_THAT(plan.workers[1].nodes, ElementsAre(1));
  EXPECT_THAT(plan.workers[1].cpus, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(plan.ToString(), HasSubstr("worker 1 at unix:/run/m/worker-1.sock on node 1 with 4 CPUs"));
}

TEST(FleetPlanTest, SlicesCountByPlaceAndNotByNodeNumber) {
  // The cgroup leaves the second and fourth of four nodes.
  const FleetPlan plan = Plan("pack:4 numa:1 core:2 pu:1", {}, {.cpus = {2, 3, 6, 7}});
  ASSERT_EQ(plan.workers.size(), 2u);
  EXPECT_THAT(plan.workers[0].nodes, ElementsAre(1));
  EXPECT_THAT(plan.workers[1].nodes, ElementsAre(3));
  EXPECT_EQ(plan.workers[1].index, 1);
  EXPECT_EQ(plan.worker_count, 2);
}

TEST(FleetPlanTest, AWorkerForEachSocketOwnsItsClusters) {
  EXPECT_EQ(Plan(kThreeClusters, {}).workers.size(), 6u);
  const FleetPlan plan = Plan(kThreeClusters, {.per_package = true});
  ASSERT_EQ(plan.workers.size(), 2u);
  EXPECT_THAT(plan.workers[0].nodes, ElementsAre(0, 1, 2));
  EXPECT_THAT(plan.workers[1].nodes, ElementsAre(3, 4, 5));
  EXPECT_EQ(plan.workers[1].cpus.size(), 12u);
  // Without sockets every node is a home of its own.
  EXPECT_EQ(Plan("numa:3 core:2 pu:1", {.per_package = true}).workers.size(), 3u);
}

TEST(FleetPlanTest, TheHostsOfASetLookAlike) {
  const FleetPlan plan = Plan(
      kTwoSockets, {.first_index = 2, .worker_count = 6, .listen = "0.0.0.0:7070", .metrics_port = 9090});
  EXPECT_EQ(plan.worker_count, 6);
  EXPECT_EQ(plan.workers[0].index, 2);
  EXPECT_EQ(plan.workers[1].index, 3);
  EXPECT_EQ(plan.workers[0].listen, "0.0.0.0:7070");
  EXPECT_EQ(plan.workers[1].listen, "0.0.0.0:7071");
  EXPECT_EQ(plan.workers[1].metrics_port, 9091);
  EXPECT_EQ(Plan(kTwoSockets, {.metrics_port = 0}).workers[1].metrics_port, 0);
  EXPECT_EQ(Plan(kTwoSockets, {.listen = "[::]:7070"}).workers[1].listen, "[::]:7071");
}

TEST(FleetPlanTest, NoCpuHasTwoOwnersAndNoHomeIsForgotten) {
  for (const char* machine :
       {kTwoSockets, kThreeClusters, "numa:1 core:8 pu:2", "pack:2 numa:4 core:1 pu:1"}) {
    for (int local = 1; local <= 8; ++local) {
      const FleetPlan plan = Plan(machine, {.local_workers = local});
      ASSERT_EQ(plan.workers.size(), static_cast<size_t>(local));
      std::multiset<int> cpus;
      std::set<int> nodes;
      for (const FleetWorker& worker : plan.workers) {
        EXPECT_FALSE(worker.cpus.empty());
        cpus.insert(worker.cpus.begin(), worker.cpus.end());
        nodes.insert(worker.nodes.begin(), worker.nodes.end());
      }
      size_t all = 0;
      for (const NumaNode& node : Machine(machine).nodes) all += node.cpus.size();
      EXPECT_EQ(std::set<int>(cpus.begin(), cpus.end()).size(), cpus.size()) << machine << " " << local;
      EXPECT_EQ(cpus.size(), all) << machine << " " << local;
      EXPECT_EQ(nodes.size(), Machine(machine).nodes.size()) << machine << " " << local;
    }
  }
}

TEST(FleetPlanTest, WorkersOfOneHomeDivideItsCores) {
  const FleetPlan plan = Plan("numa:1 core:4 pu:2", {.local_workers = 2});
  EXPECT_THAT(plan.workers[0].cpus, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(plan.workers[1].cpus, ElementsAre(4, 6, 5, 7));
}

TEST(FleetPlanTest, MoreWorkersThanCpusStillHaveOneEach) {
  const FleetPlan plan = Plan("numa:1 core:2 pu:1", {.local_workers = 5});
  for (const FleetWorker& worker : plan.workers) EXPECT_EQ(worker.cpus.size(), 1u);
}

TEST(FleetPlanTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(Refusal(kTwoSockets, {.local_workers = 3, .own_home = true}),
              HasSubstr("--pinning required: 3 workers would share 2 nodes"));
  EXPECT_THAT(Refusal(kTwoSockets, {.worker_count = 1}), HasSubstr("--worker-count=1: 2 workers"));
  EXPECT_THAT(Refusal(kTwoSockets, {.first_index = 1, .worker_count = 2}), HasSubstr("expected at least 3"));
  EXPECT_THAT(Refusal(kTwoSockets, {.local_workers = 65}), HasSubstr("at most 64"));
  EXPECT_THAT(Refusal(kTwoSockets, {.metrics_port = 65'535}), HasSubstr("--metrics-port=65535"));
  for (const char* listen : {"nonsense", ":1", "host:0", "host:65535", "host:7x", "unix:"})
    EXPECT_THAT(Refusal(kTwoSockets, {.listen = listen}), HasSubstr("--listen=")) << listen;
}

TEST(FleetPlanTest, AWorkerGetsTheSupervisorsDecisionsAndTheOtherFlagsAsGiven) {
  const FleetPlan plan = Plan(kTwoSockets, {.metrics_port = 9090});
  EXPECT_THAT(WorkerArguments({"--supervise", "--model", "/m", "--listen", "unix:/run/m", "--listen=unix:/x",
                               "--health-listen=0.0.0.0:8081", "--local-workers", "2", "--threads", "3"},
                              plan, plan.workers[1]),
              ElementsAre("--model", "/m", "--threads", "3", "--supervise=false", "--worker-index=1",
                          "--worker-count=2", "--listen=unix:/run/m/worker-1.sock", "--metrics-port=9091",
                          "--health-listen=none", "--numa-nodes=1", "--exclusive-cpus=4"));
}

TEST(FleetPlanTest, FlagsWithUnderscoresAreTheSupervisorsAsWell) {
  const FleetPlan plan = Plan(kTwoSockets, {.listen = "unix:/run/m", .metrics_port = 9090});
  EXPECT_THAT(WorkerArguments({"--supervise", "--worker_per", "package", "--hung_after_ms=5", "-t", "3"},
                              plan, plan.workers[0]),
              AllOf(Contains("-t"), Contains("3"), Not(Contains("--worker_per")), Not(Contains("package")),
                    Not(Contains("--hung_after_ms=5"))));
}

TEST(FleetPlanTest, WorkersWithTlsAreAskedAtAnotherAddress) {
  const FleetPlan plan = Plan(kTwoSockets, {.listen = "0.0.0.0:7070", .health = "unix-abstract:h-"});
  EXPECT_EQ(plan.workers[1].health, "unix-abstract:h-1");
  EXPECT_THAT(WorkerArguments({"--supervise", "--ssl-certfile", "/c", "--health-listen", "0.0.0.0:8081"},
                              plan, plan.workers[1]),
              IsSupersetOf({"--ssl-certfile", "/c", "--health-listen=unix-abstract:h-1"}));
}

}  // namespace
}  // namespace numoe::worker
