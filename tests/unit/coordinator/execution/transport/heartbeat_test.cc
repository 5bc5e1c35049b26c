// A link that is interrupted without an error to either end, and a worker that is stopped, are noticed within
// the heartbeat's deadline, between calls and during a call, and the session recovers.
#include "coordinator/execution/transport/heartbeat.h"

#include <atomic>

#include "coordinator/execution/transport/expert_fan_out.h"
#include "expert_worker/service/worker_service.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/cut_relay.h"

namespace numoe::execution {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHeartbeatPatienceMs = 120'000;

class Zeros final : public LayerExecutor {
 public:
  absl::Status Execute(const LayerCallView&, absl::Span<float> out) override {
    hang_.wait(true);
    std::fill(out.begin(), out.end(), 0.0f);
    return absl::OkStatus();
  }
  // Calls are not computed until Resume.
  void Hang() { hang_.store(true); }
  void Resume() {
    hang_.store(false);
    hang_.notify_all();
  }

 private:
  std::atomic<bool> hang_{false};
};

class HeartbeatTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto service = worker::WorkerService::Start(zeros_, {.listen = "127.0.0.1:0",
                                                         .hidden_size = 4,
                                                         .num_experts = 2,
                                                         .experts_per_token = 1,
                                                         .description = "zeros"});
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    const std::string& address = service_->address();
    relay_ = std::make_unique<CutRelay>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  void Connect(int64_t deadline_ms, DataPath path = DataPath::kGrpc) {
    auto workers = ExpertFanOut::Connect({.addresses = {relay_->address()},
                                          .link = {.data_path = path,
                                                   .hidden_size = 4,
                                                   .num_experts = 2,
                                                   .call_deadline_ms = kHeartbeatPatienceMs,
                                                   .heartbeat_ms = 10,
                                                   .heartbeat_deadline_ms = deadline_ms},
                                          .start_deadline_ms = kHeartbeatPatienceMs},
                                         metrics_);
    ASSERT_TRUE(workers.ok()) << workers.status();
    workers_ = *std::move(workers);
  }
  absl::Status Call() {
    const std::vector<float> hidden(4), weights(1);
    const std::vector<ExpertId> experts(1);
    std::vector<float> out(4);
    const LayerCallView call{.layer = 0,
                             .tokens = 1,
                             .experts_per_token = 1,
                             .hidden = hidden,
                             .experts = experts,
                             .weights = weights};
    const absl::Status begun = workers_->Start(call);
    return begun.ok() ? workers_->Finish(absl::MakeSpan(out)) : begun;
  }
  // Returns whether a call succeeds in time: on a busy machine a heartbeat may miss its deadline at any
  // moment.
  bool CallsAgain() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kHeartbeatPatienceMs);
    while (std::chrono::steady_clock::now() < deadline) {
      if (workers_->AwaitReady(kHeartbeatPatienceMs).ok() && Call().ok()) return true;
    }
    return false;
  }
  // Waits until the worker's state is `up`; returns whether that happened in time.
  bool Await(bool up) const {
    for (int i = 0; i < kHeartbeatPatienceMs / 5; ++i) {
      if (workers_->sessions().Workers()[0].up == up) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  Metrics metrics_{MetricOwner::kCoordinator};
  Zeros zeros_;
  std::unique_ptr<worker::WorkerService> service_;
  std::unique_ptr<CutRelay> relay_;
  std::unique_ptr<ExpertFanOut> workers_;
};

TEST_F(HeartbeatTest, AnInterruptedIdleLinkIsNoticedAndRecovers) {
  Connect(/*deadline_ms=*/500);
  relay_->Cut(true);
  ASSERT_TRUE(Await(/*up=*/false));
  relay_->Cut(false);
  ASSERT_TRUE(Await(/*up=*/true));
}

TEST_F(HeartbeatTest, ACallOverAnInterruptedLinkEndsLongBeforeItsDeadline) {
  Connect(/*deadline_ms=*/500);
  relay_->Cut(true);
  const auto begun = std::chrono::steady_clock::now();
  const absl::Status ended = Call();
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(kHeartbeatPatienceMs / 2));
  EXPECT_FALSE(workers_->Ready());
  relay_->Cut(false);
  ASSERT_TRUE(workers_->AwaitReady(kHeartbeatPatienceMs).ok());
}

// To its peers a stopped worker looks like this: it does not answer, and none of its sockets closes.
TEST_F(HeartbeatTest, WithSharedMemoryAStoppedWorkerIsNoticedBetweenCalls) {
  Connect(/*deadline_ms=*/500, DataPath::kSharedMemory);
  ASSERT_TRUE(CallsAgain());
  relay_->Cut(true);
  ASSERT_TRUE(Await(/*up=*/false));
  relay_->Cut(false);
  EXPECT_TRUE(CallsAgain());
}

TEST_F(HeartbeatTest, WithSharedMemoryAStoppedWorkerIsNoticedDuringACall) {
  Connect(/*deadline_ms=*/500, DataPath::kSharedMemory);
  zeros_.Hang();
  relay_->Cut(true);
  const auto begun = std::chrono::steady_clock::now();
  const absl::Status ended = Call();
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(kHeartbeatPatienceMs / 2));
  EXPECT_FALSE(workers_->Ready());
  zeros_.Resume();
  relay_->Cut(false);
  EXPECT_TRUE(CallsAgain());
}

TEST_F(HeartbeatTest, ALinkThatIsOnlySlowIsKept) {
  Connect(/*deadline_ms=*/kHeartbeatPatienceMs);
  relay_->Cut(true);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // many heartbeat intervals
  relay_->Cut(false);
  EXPECT_TRUE(Call().ok());
  EXPECT_EQ(metrics_.With(CounterId::kWorkerLost, {relay_->address()}).Value(), 0);
}

TEST_F(HeartbeatTest, TheErrorSaysWhatShowedTheLoss) {
  const auto channel = grpc::CreateChannel(relay_->address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::ExpertWorker::NewStub(channel);
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(2)));
  Heartbeat heartbeat(*stub, /*every_ms=*/1, /*deadline_ms=*/300);
  relay_->Cut(true);
  absl::Status seen;
  while (seen.ok()) seen = heartbeat.Poll();
  EXPECT_THAT(seen.ToString(), HasSubstr("no sign of life for 300 ms"));
  relay_->Cut(false);
  Heartbeat broken(*stub, /*every_ms=*/1, /*deadline_ms=*/kHeartbeatPatienceMs);
  service_.reset();
  seen = absl::OkStatus();
  while (seen.ok()) seen = broken.Poll();
  EXPECT_TRUE(absl::IsUnavailable(seen)) << seen;
}

// A worker that refuses all calls, like one that is overloaded.
TEST(HeartbeatRefusalTest, ARefusalIsASignOfLife) {
  v1::ExpertWorker::Service refuses;  // answers UNIMPLEMENTED
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&refuses);
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  const auto channel =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  const auto stub = v1::ExpertWorker::NewStub(channel);
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(2)));
  Heartbeat heartbeat(*stub, /*every_ms=*/1, /*deadline_ms=*/kHeartbeatPatienceMs);
  for (int look = 0; look < 200; ++look) {
    const absl::Status seen = heartbeat.Poll();
    ASSERT_TRUE(seen.ok()) << seen;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_F(HeartbeatTest, TheHeartbeatEndsWhileAnAnswerIsOutstanding) {
  const auto channel = grpc::CreateChannel(relay_->address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::ExpertWorker::NewStub(channel);
  relay_->Cut(true);
  Heartbeat heartbeat(*stub, /*every_ms=*/0, /*deadline_ms=*/kHeartbeatPatienceMs);
  EXPECT_TRUE(heartbeat.Poll().ok());
}

}  // namespace
}  // namespace numoe::execution
