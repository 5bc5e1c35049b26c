// A probe of daemons that do not exist, do not serve, or start later.
#include "expert_worker/service/health_probe.h"

#include "expert_worker/service/health_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/becomes.h"

namespace numoe::worker {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(HealthProbeTest, AMissingDaemonDoesNotAnswer) {
  const std::string socket = "unix:" + ::testing::TempDir() + "/numoe-nobody-listens";
  const absl::Status status = HealthProbe(socket).Ask("", milliseconds(200));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr(socket + " does not answer"));
}

TEST(HealthProbeTest, ADaemonThatDoesNotServeSaysSo) {
  const auto server = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  const HealthProbe probe("127.0.0.1:" + std::to_string((*server)->port()));
  const absl::Status status = probe.Ask("", std::chrono::minutes(1));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("answers that it is not serving"));
}

TEST(HealthProbeTest, ADaemonThatStartsLaterIsFoundByTheSameProbe) {
  int port = 0;
  {
    const auto server = HealthServer::Start("127.0.0.1:0");
    ASSERT_TRUE(server.ok()) << server.status();
    port = (*server)->port();
  }
  const std::string address = "127.0.0.1:" + std::to_string(port);
  const HealthProbe probe(address);
  EXPECT_FALSE(probe.Ask("live", milliseconds(100)).ok());
  const auto server = HealthServer::Start(address);
  if (!server.ok()) GTEST_SKIP() << "another process took the port: " << server.status();
  EXPECT_TRUE(Becomes([&] { return probe.Ask("live", std::chrono::seconds(1)).ok(); }));
}

TEST(HealthProbeTest, NamesThatNoServiceHasAreRefused) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(HealthProbe("127.0.0.1:1").Ask(std::string(128, 'x'), milliseconds(1))));
}

}  // namespace
}  // namespace numoe::worker
