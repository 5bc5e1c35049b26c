// A worker's address while its weights are loaded, and afterwards.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include "common/transport/call_codec.h"
#include "expert_worker/service/worker_service.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;

class Nothing final : public LayerExecutor {
 public:
  absl::Status Execute(const LayerCallView&, absl::Span<float>) override { return absl::OkStatus(); }
};

class WorkerLoadingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto service = WorkerService::StartLoading(options_, progress_);
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    stub_ = v1::ExpertWorker::NewStub(
        grpc::CreateChannel(service_->address(), grpc::InsecureChannelCredentials()));
  }
  v1::HandshakeReply Shake() {
    grpc::ClientContext context;
    v1::HandshakeReply reply;
    const grpc::Status status = stub_->Handshake(&context, {}, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(reply.protocol_version(), kProtocolVersion);
    return reply;
  }

  const WorkerServiceOptions options_{
      .listen = "unix:" + ::testing::TempDir() + "/loading-" + std::to_string(getpid()),
      .hidden_size = 4,
      .num_experts = 2,
      .experts_per_token = 1,
      .description = "nothing"};
  Nothing executor_;
  LoadProgress progress_;
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<v1::ExpertWorker::Stub> stub_;
};

TEST_F(WorkerLoadingTest, AHandshakeSaysHowFarTheLoadIs) {
  v1::HandshakeReply reply = Shake();
  ASSERT_TRUE(reply.has_loading());
  EXPECT_EQ(reply.loading().bytes_total(), 0u) << "not known yet";
  progress_.AddPages(5);
  EXPECT_EQ(Shake().loading().moves(), 5u);
  progress_.Begin(100);
  progress_.Add(40, /*direct=*/true);
  reply = Shake();
  EXPECT_EQ(reply.loading().moves(), 45u);
  EXPECT_EQ(reply.loading().bytes_done(), 40u);
  EXPECT_EQ(reply.loading().bytes_total(), 100u);
}

TEST_F(WorkerLoadingTest, AllElseIsUnavailableUntilItServes) {
  const auto drain = [&] {
    grpc::ClientContext context;
    v1::DrainReply reply;
    return stub_->Drain(&context, {}, &reply);
  };
  const auto stats = [&] {
    grpc::ClientContext context;
    v1::StatsReply reply;
    return stub_->GetStats(&context, {}, &reply);
  };
  const auto expert_stats = [&] {
    grpc::ClientContext context;
    v1::ExpertStatsReply reply;
    return stub_->GetExpertStats(&context, {}, &reply);
  };
  const auto calls = [&] {
    grpc::ClientContext context;
    const auto stream = stub_->LayerCalls(&context);
    return stream->Finish();
  };
  for (const grpc::Status& status : {drain(), stats(), expert_stats(), calls()}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(status.error_message(), HasSubstr("loads its weights"));
  }
  ASSERT_TRUE(service_->Serve(executor_, options_).ok());
  const v1::HandshakeReply reply = Shake();
  EXPECT_FALSE(reply.has_loading());
  EXPECT_EQ(reply.description(), "nothing");
  EXPECT_TRUE(stats().ok());
  EXPECT_TRUE(drain().ok());
}

}  // namespace
}  // namespace numoe::worker
