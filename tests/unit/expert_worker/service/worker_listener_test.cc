// The server at a worker's address: its name, what can prevent it, and what it leaves behind.
#include "expert_worker/service/worker_listener.h"

#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"
#include "tests/support/safetensors_writer.h"

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

// Leaves a socket file as a process that was killed does.
void LeaveStale(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(fd);
}

TEST_F(WorkerListenerTest, OneOfSeveralThatFindAStaleSocketTakesItOver) {
  constexpr int kRounds = 10, kWorkers = 4;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "w.sock").string();
  for (int round = 0; round < kRounds; ++round) {
    LeaveStale(path);
    std::vector<v1::ExpertWorker::Service> services(kWorkers);
    std::vector<absl::StatusOr<std::unique_ptr<WorkerListener>>> opened(kWorkers);
    std::vector<std::thread> workers;
    for (size_t w = 0; w < kWorkers; ++w) {
      workers.emplace_back([&, w] {
        opened[w] = WorkerListener::Open(
            {.listen = "unix:" + path, .message_bytes_max = kListenerMessageBytes}, services[w]);
      });
    }
    for (std::thread& worker : workers) worker.join();
    int serving = 0;
    for (const auto& each : opened) {
      serving += each.ok() ? 1 : 0;
      if (!each.ok()) {
        EXPECT_THAT(each.status().ToString(), HasSubstr("served by another process"));
      }
    }
    EXPECT_EQ(serving, 1) << "round " << round;
    EXPECT_EQ(access(path.c_str(), F_OK), 0) << "the one that serves has its file";
  }
}

TEST_F(WorkerListenerTest, EveryoneMayAskOverTcpWithoutCertificates) {
  const TlsFiles tls{.certificate = "c", .key = "k"};
  EXPECT_TRUE(AnybodyMayAsk("127.0.0.1:7070", {}));
  EXPECT_FALSE(AnybodyMayAsk("127.0.0.1:7070", tls));
  EXPECT_FALSE(AnybodyMayAsk("unix:/run/w", {}));
}

}  // namespace
}  // namespace numoe::worker
