// The gRPC service as a stranger sees it: what it refuses, and what calls cost it.
#include "expert_worker/service/worker_service.h"

#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "common/base/file_descriptor.h"
#include "common/transport/call_codec.h"
#include "common/transport/transport_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kServiceHidden = 4;

class Halves final : public LayerExecutor {
 public:
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    for (size_t i = 0; i < out.size(); ++i) out[i] = call.hidden[i] / 2;
    return absl::OkStatus();
  }
};

using CallStream = std::unique_ptr<grpc::ClientReaderWriter<v1::LayerCall, v1::LayerReply>>;

class WorkerServiceTest : public ::testing::Test {
 protected:
  void Serve(const std::string& listen, std::optional<gid_t> shared_memory_group = std::nullopt) {
    service_.reset();
    auto service = WorkerService::Start(halves_, {.listen = listen,
                                                  .hidden_size = kServiceHidden,
                                                  .num_experts = 2,
                                                  .experts_per_token = 1,
                                                  .description = "halves",
                                                  .shared_memory_group = shared_memory_group});
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    grpc::ChannelArguments arguments;  // another service's connection to this address is none of ours
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::ExpertWorker::NewStub(
        grpc::CreateCustomChannel(service_->address(), grpc::InsecureChannelCredentials(), arguments));
  }
  std::string UnixAddress() const {
    return "unix:" + ::testing::TempDir() + "/service-" + std::to_string(getpid());
  }
  v1::HandshakeReply Shake(const std::string& name = "test") {
    grpc::ClientContext context;
    v1::HandshakeRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_coordinator(name);
    v1::HandshakeReply reply;
    const grpc::Status status = stub_->Handshake(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
  static v1::LayerCall OneToken(uint64_t instance) {
    v1::LayerCall call;
    call.set_call_id(5);
    call.set_instance(instance);
    call.set_tokens(1);
    call.set_experts_per_token(1);
    call.set_hidden(std::string(kServiceHidden * sizeof(float), '\0'));
    call.set_experts(std::string(sizeof(ExpertId), '\0'));
    call.set_weights(std::string(sizeof(float), '\0'));
    return call;
  }

  Halves halves_;
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<v1::ExpertWorker::Stub> stub_;
};

TEST_F(WorkerServiceTest, OnlyAuthenticatedClientsMayDrain) {
  const auto drain = [&] {
    grpc::ClientContext context;
    v1::DrainReply reply;
    return stub_->Drain(&context, {}, &reply);
  };
  Serve("127.0.0.1:0");
  const grpc::Status refused = drain();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), AllOf(HasSubstr("SIGTERM"), HasSubstr("--ssl-certfile")));
  EXPECT_NE(Shake().instance(), 0u) << "it serves on";
  Serve(UnixAddress());  // guarded by its file's permissions
  const grpc::Status drained = drain();
  EXPECT_TRUE(drained.ok()) << drained.error_message();
  grpc::ClientContext context;
  v1::HandshakeReply reply;
  EXPECT_EQ(stub_->Handshake(&context, {}, &reply).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(WorkerServiceTest, ASocketFileIsOpenToTheSharedMemoryGroupAndNoOther) {
  const gid_t group = geteuid() == 0 ? 64998 : getegid();
  const std::string path = UnixAddress().substr(std::string("unix:").size());
  const mode_t before = umask(0);
  Serve(UnixAddress(), group);
  umask(before);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0660u);
  EXPECT_EQ(info.st_gid, group);
  EXPECT_NE(Shake().instance(), 0u);
  service_.reset();
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "it is removed as any";
}

TEST_F(WorkerServiceTest, ACallForAnotherProcessAtThisAddressIsRefused) {
  Serve(UnixAddress());
  const uint64_t before = Shake().instance();
  Serve(UnixAddress());
  const uint64_t now = Shake().instance();
  EXPECT_NE(before, now);
  grpc::ClientContext context;
  const CallStream stream = stub_->LayerCalls(&context);
  v1::LayerReply reply;
  ASSERT_TRUE(stream->Write(OneToken(before)));
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.status_code(), static_cast<int>(grpc::StatusCode::FAILED_PRECONDITION));
  EXPECT_THAT(reply.status_message(), HasSubstr("connect to it again"));
  EXPECT_EQ(service_->Stats().calls, 0u);
  ASSERT_TRUE(stream->Write(OneToken(now)));
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.status_code(), 0);
  context.TryCancel();
  stream->Finish();
}

TEST_F(WorkerServiceTest, StreamsBeyondTheLimitAreRefusedAndTheOthersServed) {
  Serve("127.0.0.1:0");
  const uint64_t instance = Shake().instance();
  std::vector<grpc::ClientContext> contexts(limits::kStreamsMax + 1);
  std::vector<CallStream> streams;
  v1::LayerReply reply;
  for (int i = 0; i < limits::kStreamsMax; ++i) {
    streams.push_back(stub_->LayerCalls(&contexts[static_cast<size_t>(i)]));
    ASSERT_TRUE(streams.back()->Write(OneToken(instance)));
    ASSERT_TRUE(streams.back()->Read(&reply)) << i;
  }
  const CallStream one_more = stub_->LayerCalls(&contexts.back());
  EXPECT_FALSE(one_more->Read(&reply));
  const grpc::Status refused = one_more->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("expected at most 16"));
  for (const CallStream& stream : streams) {
    ASSERT_TRUE(stream->Write(OneToken(instance)));
    ASSERT_TRUE(stream->Read(&reply));
    EXPECT_EQ(reply.status_code(), 0);
  }
  EXPECT_NE(Shake().instance(), 0u) << "questions are answered beside them";
  for (size_t i = 0; i < streams.size(); ++i) {
    contexts[i].TryCancel();
    streams[i]->Finish();
  }
}

TEST_F(WorkerServiceTest, AMessageBeyondWhatACallNeedsIsRefused) {
  Serve("127.0.0.1:0");
  grpc::ClientContext context;
  const CallStream stream = stub_->LayerCalls(&context);
  v1::LayerCall call = OneToken(Shake().instance());
  call.set_hidden(std::string(64 << 20, 'x'));
  stream->Write(call);
  v1::LayerReply reply;
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(WorkerServiceTest, ACoordinatorsNameInTheLogIsShortAndPrintable) {
  Serve(UnixAddress());
  ::testing::internal::CaptureStdout();
  Shake("evil\n\x1b[31m" + std::string(1 << 20, 'a'));
  const std::string log = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(log, AllOf(HasSubstr("'evil??[31ma"), Not(HasSubstr(std::string(64, 'a')))));
  EXPECT_LT(log.size(), 1000u);
}

// A coordinator's connection that reads no byte of an answer, in terms of HTTP/2: SETTINGS with a window of
// 0.
std::string FrameOf(char type, char flags, char stream, const std::string& content) {
  const auto size = static_cast<char>(content.size());  // all are short
  return std::string{0, 0, size, type, flags, 0, 0, 0, stream} + content;
}
std::string HeaderOf(const std::string& name, const std::string& value) {
  return std::string{0, static_cast<char>(name.size())} + name + static_cast<char>(value.size()) + value;
}

TEST_F(WorkerServiceTest, AClientThatReadsNoAnswersHoldsNoThread) {
  Serve("127.0.0.1:0");
  const std::string& address = service_->address();
  const sockaddr_in place{
      .sin_family = AF_INET,
      .sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)))),
      .sin_addr = {htonl(INADDR_LOOPBACK)},
      .sin_zero = {}};
  std::vector<FileDescriptor> deaf;
  for (int connection = 0; connection < 2; ++connection) {  // with as many questions as threads, each
    deaf.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(deaf.back().get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
    std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    bytes += FrameOf(4, 0, 0, std::string{0, 4, 0, 0, 0, 0});
    const std::string headers = HeaderOf(":method", "POST") + HeaderOf(":scheme", "http") +
                                HeaderOf(":path", "/numoe.v1.ExpertWorker/Handshake") +
                                HeaderOf(":authority", "x") + HeaderOf("te", "trailers") +
                                HeaderOf("content-type", "application/grpc");
    for (int question = 0; question < limits::kConnectionStreamsMax; ++question) {
      const auto stream = static_cast<char>(1 + 2 * question);
      bytes += FrameOf(1, 4, stream, headers) + FrameOf(0, 1, stream, std::string(5, '\0'));
    }
    ASSERT_EQ(send(deaf.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // so that they are being answered
  for (int i = 0; i < 3; ++i) EXPECT_NE(Shake().instance(), 0u);
  grpc::ClientContext context;
  const CallStream stream = stub_->LayerCalls(&context);
  v1::LayerReply reply;
  ASSERT_TRUE(stream->Write(OneToken(Shake().instance())));
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.status_code(), 0);
  context.TryCancel();
  stream->Finish();
}

// A megabyte that becomes a gigabyte is not decompressed.
TEST_F(WorkerServiceTest, CompressedMessagesAreRefused) {
  Serve("127.0.0.1:0");
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
  v1::HandshakeRequest request;
  request.set_coordinator(std::string(1 << 20, 'a'));
  v1::HandshakeReply reply;
  EXPECT_FALSE(stub_->Handshake(&context, request, &reply).ok());
  EXPECT_NE(Shake().instance(), 0u) << "it serves on";
}

}  // namespace
}  // namespace numoe::worker
