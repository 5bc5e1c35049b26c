// grpc.health.v1 on a port of its own, asked by the probe.
#include "expert_worker/service/health_server.h"

#include "expert_worker/service/health_probe.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

constexpr std::chrono::seconds kPatience(60);

TEST(HealthServerTest, ItIsLiveFromTheStartAndReadyWhenItIsSet) {
  const auto server = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_GT((*server)->port(), 0);
  const HealthProbe probe("127.0.0.1:" + std::to_string((*server)->port()));
  EXPECT_TRUE(probe.Ask("live", kPatience).ok());
  EXPECT_FALSE(probe.Ask("", kPatience).ok());
  (*server)->Set("", true);
  EXPECT_TRUE(probe.Ask("", kPatience).ok());
  (*server)->Set("worker-1", true);
  EXPECT_TRUE(probe.Ask("worker-1", kPatience).ok());
  EXPECT_FALSE(probe.Ask("worker-2", kPatience).ok()) << "it was never set";
  (*server)->Set("", false);
  EXPECT_FALSE(probe.Ask("", kPatience).ok());
  EXPECT_TRUE(probe.Ask("live", kPatience).ok());
}

TEST(HealthServerTest, AnAddressThatItCannotListenOnIsNamed) {
  const auto first = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string taken = "127.0.0.1:" + std::to_string((*first)->port());
  const auto second = HealthServer::Start(taken);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(second.status().ToString(), ::testing::HasSubstr(taken));
}

}  // namespace
}  // namespace numoe::worker
