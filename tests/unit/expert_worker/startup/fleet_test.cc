// The fleet that a supervisor's flags ask for, on synthetic machines.
#include "expert_worker/startup/fleet.h"

#include "gmock/gmock.h"
#include "tests/unit/expert_worker/startup/worker_command.h"

namespace numoe::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTwoSocketsOfTwoNodes = "pack:2 numa:2 core:2 pu:1";

absl::StatusOr<FleetPlan> PlanOf(std::vector<std::string> words, const std::string& listen = "unix:/run/m") {
  words.insert(words.begin(), {"--model", ".", "--supervise", "--listen", listen});
  const absl::StatusOr<Topology> machine = SyntheticTopology(kTwoSocketsOfTwoNodes);
  EXPECT_TRUE(machine.ok()) << machine.status();
  return PlanFleetFor(OptionsOf(std::move(words)), machine.value_or(Topology{}));
}

TEST(FleetTest, AFleetHasOneWorkerForEachNodeOrSocket) {
  const auto nodes = PlanOf({}), sockets = PlanOf({"--worker-per", "package"});
  ASSERT_TRUE(nodes.ok() && sockets.ok());
  EXPECT_EQ(nodes->workers.size(), 4u);
  ASSERT_EQ(sockets->workers.size(), 2u);
  EXPECT_THAT(sockets->workers[1].nodes, ElementsAre(2, 3));
  EXPECT_EQ(sockets->worker_count, 2);
}

TEST(FleetTest, FlagsGiveTheSlicesOfOneHostAmongSeveral) {
  const auto plan = PlanOf({"--worker-count", "8", "--worker-index", "4", "--metrics-port", "7000"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->worker_count, 8);
  EXPECT_EQ(plan->workers.front().index, 4);
  EXPECT_EQ(plan->workers.back().index, 7);
  EXPECT_EQ(plan->workers.back().metrics_port, 7003);
}

TEST(FleetTest, RequiredPinningRefusesTwoWorkersOnOneHome) {
  EXPECT_TRUE(PlanOf({"--local-workers", "6", "--worker-count", "6"}).ok());
  const auto refused = PlanOf({"--local-workers", "6", "--worker-count", "6", "--pinning", "required"});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
}

TEST(FleetTest, TheHealthOfWorkersWithTlsHasASecretAddress) {
  constexpr const char* kPort = "127.0.0.1:7070";
  const std::vector<std::string> tls = {"--ssl-certfile", "c", "--ssl-keyfile", "k", "--ssl-ca-certs", "a"};
  const auto plain = PlanOf({}, kPort), first = PlanOf(tls, kPort), second = PlanOf(tls, kPort);
  ASSERT_TRUE(plain.ok() && first.ok() && second.ok());
  EXPECT_EQ(plain->workers[0].health, "none");
  EXPECT_THAT(first->workers[0].health, HasSubstr("unix-abstract:numoe-health-"));
  EXPECT_NE(first->workers[0].health, second->workers[0].health) << "the address cannot be guessed";
}

}  // namespace
}  // namespace numoe::worker
