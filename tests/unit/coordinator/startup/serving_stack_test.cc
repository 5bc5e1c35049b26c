// The coordinator as it is started and ended, with a worker in this process: what it serves, and that
// everything ends in order whenever it ends.
#include "coordinator/startup/serving_stack.h"

#include <fstream>
#include <thread>

#include "common/base/signals.h"
#include "coordinator/net/client/http_client.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/service/worker_service.h"
#include "gmock/gmock.h"
#include "tests/support/awaited_signal.h"
#include "tests/support/becomes.h"
#include "tests/support/safetensors_writer.h"
#include "tests/unit/coordinator/startup/serving_command.h"

namespace numoe::startup {
namespace {

using ::testing::HasSubstr;

constexpr const char* kServedModel = "tests/golden/data/tiny-chat";

class ServingStackTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { BlockSignals(); }  // before any thread starts

  void SetUp() override {
    const auto checkpoint = Checkpoint::Open(kServedModel);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const ModelConfig config = ReadModelConfig(kServedModel).value();
    auto executor = worker::ExpertExecutor::Load(**checkpoint, config, {.threads = 2});
    ASSERT_TRUE(executor.ok()) << executor.status();
    executor_ = *std::move(executor);
    auto service =
        worker::WorkerService::Start(*executor_, {.listen = WorkerAddress(),
                                                  .model_fingerprint = (*checkpoint)->Fingerprint().value(),
                                                  .hidden_size = config.hidden_size,
                                                  .num_experts = config.num_experts,
                                                  .experts_per_token = config.experts_per_token,
                                                  .description = "a test's"});
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
  }

  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string WorkerAddress() const { return "unix:" + Path("worker.sock"); }
  ServingOptions Options(std::vector<std::string> words = {}) const {
    words.insert(words.begin(), {"--device", "cpu", "--threads", "2", "--host", "127.0.0.1", "--port", "0",
                                 "--port-file", Path("port"), "--max-num-seqs", "2", "--max-total-tokens",
                                 "4096", "--memory-reservations", Path("reservations")});
    return ServingOptionsOf(std::move(words), WorkerAddress());
  }
  static std::unique_ptr<net::HttpClient> ClientOf(const ServingStack& stack) {
    auto client = net::HttpClient::Create(
        net::ParseUrl("http://127.0.0.1:" + std::to_string(stack.port())).value(), "");
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  static net::HttpCall Completion(int tokens) {
    return {.path = "/v1/completions",
            .body = R"({"model": "tiny-chat", "prompt": "once", "ignore_eos": true, "max_tokens": )" +
                    std::to_string(tokens) + "}"};
  }

  const TemporaryFolder folder_;
  std::unique_ptr<worker::ExpertExecutor> executor_;
  std::unique_ptr<worker::WorkerService> service_;
};

TEST_F(ServingStackTest, ServesAndCanBeStartedAgain) {
  for (int start = 0; start < 2; ++start) {
    auto stack = ServingStack::Create(Options());
    ASSERT_TRUE(stack.ok()) << stack.status();
    int told = 0;
    std::ifstream(Path("port")) >> told;
    EXPECT_EQ(told, (*stack)->port());
    const auto client = ClientOf(**stack);
    const auto health = client->Fetch({.path = "/health"});
    ASSERT_TRUE(health.ok()) << health.status();
    EXPECT_EQ(health->status, 200) << health->body;
    const auto answer = client->FetchOk(Completion(3));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_THAT(*answer, HasSubstr("\"completion_tokens\":3"));
  }
}

TEST_F(ServingStackTest, EndsWhileRequestsRun) {
  auto stack = ServingStack::Create(Options());
  ASSERT_TRUE(stack.ok()) << stack.status();
  const auto client = ClientOf(**stack);
  std::vector<absl::StatusOr<net::FetchedReply>> replies(8, absl::UnknownError("none came"));
  std::vector<std::thread> askers;  // two run and the others wait
  for (auto& reply : replies) askers.emplace_back([&] { reply = client->Fetch(Completion(1900)); });
  EXPECT_TRUE(Becomes([&] {
    const auto metrics = client->FetchOk({.path = "/metrics"});
    return metrics.ok() && metrics->find("\nnumoe_requests_running 2") != std::string::npos;
  }));
  stack->reset();
  for (std::thread& asker : askers) asker.join();
  for (const auto& reply : replies) EXPECT_FALSE(absl::IsUnknown(reply.status())) << "an answer, or an end";
}

TEST_F(ServingStackTest, ASignalDrainsIt) {
  const auto stack = ServingStack::Create(Options());
  ASSERT_TRUE(stack.ok()) << stack.status();
  const AwaitedSignal signal;
  (*stack)->Serve();
  const auto refused = ClientOf(**stack)->Fetch(Completion(3));
  EXPECT_FALSE(refused.ok() && refused->status == 200) << "it takes no more";
}

TEST_F(ServingStackTest, AStartThatFailsHalfwayEndsWhatItHasBegun) {
  const std::string nobody = "unix:" + Path("nobody.sock");
  ServingOptions alone = Options({"--worker-start-timeout-ms", "50"});
  alone.workers.addresses = {nobody};
  const auto unserved = ServingStack::Create(alone);
  EXPECT_TRUE(absl::IsDeadlineExceeded(unserved.status())) << unserved.status();
  EXPECT_THAT(std::string(unserved.status().message()), HasSubstr(nobody));
  ServingOptions unreadable = Options();
  unreadable.model = "/nonexistent";
  EXPECT_THAT(std::string(ServingStack::Create(unreadable).status().message()), HasSubstr("/nonexistent"));
  const auto served = ServingStack::Create(Options());
  EXPECT_TRUE(served.ok()) << served.status();
}

}  // namespace
}  // namespace numoe::startup
