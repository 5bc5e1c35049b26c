// The server at a worker's address: what it is called, who is in its way, what it leaves behind.
#include "expert_worker/service/worker_listener.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kListenerMessageBytes = 1 << 20;

class WorkerListenerTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<WorkerListener>> Open(const std::string& listen) {
    return WorkerListener::Open({.listen = listen, .message_bytes_max = kListenerMessageBytes}, service_);
  }
  v1::ExpertWorker::Service service_;
};

TEST_F(WorkerListenerTest, APortThatTheKernelChoosesIsInTheAddress) {
  const auto listener = Open("127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_THAT((*listener)->address(), StartsWith("127.0.0.1:"));
  EXPECT_NE((*listener)->address(), "127.0.0.1:0");
  v1::ExpertWorker::Service other;
  EXPECT_THAT(WorkerListener::Open(
                  {.listen = (*listener)->address(), .message_bytes_max = kListenerMessageBytes}, other)
                  .status()
                  .ToString(),
              HasSubstr("cannot listen there"));
}

TEST_F(WorkerListenerTest, ASocketFileEndsWithIt) {
  const std::string path = ::testing::TempDir() + "/listener-" + std::to_string(getpid());
  {
    const auto listener = Open("unix:" + path);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ((*listener)->address(), "unix:" + path);
    EXPECT_EQ(access(path.c_str(), F_OK), 0);
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(WorkerListenerTest, AnybodyMayAskOverTcpWithoutCertificates) {
  const TlsFiles tls{.certificate = "c", .key = "k"};
  EXPECT_TRUE(AnybodyMayAsk("127.0.0.1:7070", {}));
  EXPECT_FALSE(AnybodyMayAsk("127.0.0.1:7070", tls));
  EXPECT_FALSE(AnybodyMayAsk("unix:/run/w", {}));
}

}  // namespace
}  // namespace numoe::worker
