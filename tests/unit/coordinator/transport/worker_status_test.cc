// Workers that do not fit beside the others are not used, at the start and whenever they come back, by rule
// and by a pool with real services.
#include "coordinator/transport/worker_status.h"

#include <fmt/format.h>
#include <grp.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "common/base/file_descriptor.h"
#include "common/transport/host_id.h"
#include "coordinator/transport/worker_pool.h"
#include "expert_worker/service/worker_service.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kWorkerStatusPatienceMs = 120'000;

std::vector<WorkerStatus> TwoUp() {
  return {{.address = "a", .up = true, .identity = {.worker_index = 0, .worker_count = 2}},
          {.address = "b", .up = true, .identity = {.worker_index = 1, .worker_count = 2}}};
}

TEST(CheckFitsTest, AWorkerIsComparedWithTheOthersThatAreUp) {
  std::vector<WorkerStatus> workers = TwoUp();
  const WorkerIdentity twin{.worker_index = 1, .worker_count = 2};
  EXPECT_TRUE(CheckFits(workers[0].identity, 0, workers).ok()) << "its own old place is its own";
  EXPECT_THAT(CheckFits(twin, 0, workers).ToString(),
              HasSubstr("it is slice 1 of 2, which worker b serves already, expected another one"));
  const WorkerIdentity by_expert{.slice_by_expert = true, .worker_index = 0, .worker_count = 2};
  EXPECT_THAT(CheckFits(by_expert, 0, workers).ToString(),
              HasSubstr("--slice=expert, expected --slice=intermediate as worker b has"));
  workers[1].up = false;  // all of them may change, one after the other
  EXPECT_TRUE(CheckFits(twin, 0, workers).ok());
  EXPECT_TRUE(CheckFits(by_expert, 0, workers).ok());
}

TEST(CheckFitsTest, WhatDecidesTheNumbersStaysAsItWas) {
  std::vector<WorkerStatus> workers = TwoUp();
  const WorkerIdentity int8{.worker_index = 0, .worker_count = 2, .arithmetic = "--format=int8"};
  EXPECT_TRUE(CheckFits(int8, 0, workers).ok()) << "the first that says it";
  workers[1].identity.arithmetic = "--format=bf16";
  for (const bool up : {true, false}) {
    workers[1].up = up;
    EXPECT_THAT(CheckFits(int8, 0, workers).ToString(),
                HasSubstr("computes with --format=int8, expected --format=bf16 as worker b does or did"));
  }
  workers[1].identity.arithmetic = "--format=int8";
  EXPECT_TRUE(CheckFits(int8, 0, workers).ok());
  workers[0].identity.arithmetic = "--format=int4";
  EXPECT_THAT(CheckFits(int8, 0, workers).ToString(), HasSubstr("expected --format=int4 as it does or did"));
}

TEST(CheckFitsTest, CountAndIndexAreThoseOfTheAddresses) {
  const std::vector<WorkerStatus> workers = TwoUp();
  for (const WorkerIdentity& wrong : {WorkerIdentity{.worker_index = 3, .worker_count = 4},
                                      WorkerIdentity{.worker_index = 0, .worker_count = 1}}) {
    const absl::Status status = CheckFits(wrong, 0, workers);
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_THAT(status.ToString(), HasSubstr("give it --worker-count=2"));
  }
  for (const int index : {-1, 2, 1 << 30}) {
    EXPECT_THAT(CheckFits({.worker_index = index, .worker_count = 2}, 0, workers).ToString(),
                HasSubstr("expected 0 to 1"));
  }
}

// The sum of what it is asked, times one more than its slice.
class Sums final : public LayerExecutor {
 public:
  explicit Sums(int slice) : factor_(static_cast<float>(slice + 1)) {}
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    for (size_t i = 0; i < out.size(); ++i) out[i] = factor_ * call.hidden[i];
    return absl::OkStatus();
  }

 private:
  const float factor_;
};

struct Slice {
  int index = 0;
  int count = 2;
  bool by_expert = false;
  std::string arithmetic = "--format=bf16";
};

class WorkerStatusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) Serve(i, {.index = i});
    auto pool = WorkerPool::Create({.addresses = {Address(0), Address(1)},
                                    .link = {.hidden_size = 4,
                                             .num_experts = 2,
                                             .call_deadline_ms = kWorkerStatusPatienceMs,
                                             .heartbeat_deadline_ms = kWorkerStatusPatienceMs},
                                    .start_deadline_ms = kWorkerStatusPatienceMs},
                                   metrics_);
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }
  static std::string Address(int place) {
    return "unix:" + ::testing::TempDir() + "/status-" + std::to_string(getpid()) + "-" +
           std::to_string(place);
  }
  // Instead of whoever serves there.
  void Serve(int place, const Slice& slice) {
    services_[place].reset();
    executors_.push_back(std::make_unique<Sums>(slice.index));
    auto service = WorkerService::Start(*executors_.back(), {.listen = Address(place),
                                                             .slice_by_expert = slice.by_expert,
                                                             .worker_index = slice.index,
                                                             .worker_count = slice.count,
                                                             .hidden_size = 4,
                                                             .num_experts = 2,
                                                             .experts_per_token = 1,
                                                             .description = "sums",
                                                             .arithmetic = slice.arithmetic});
    ASSERT_TRUE(service.ok()) << service.status();
    services_[place] = *std::move(service);
  }
  absl::StatusOr<float> Call() {
    const std::vector<float> hidden(4, 1.0f), weights(1, 1.0f);
    const std::vector<ExpertId> experts(1);
    std::vector<float> out(4);
    absl::Status status = pool_->Start({.layer = 0,
                                        .tokens = 1,
                                        .experts_per_token = 1,
                                        .hidden = hidden,
                                        .experts = experts,
                                        .weights = weights});
    if (status.ok()) status = pool_->Finish(absl::MakeSpan(out));
    if (!status.ok()) return status;
    return out[0];
  }
  // What is said of worker 0 once it is refused for these words.
  std::string Refused(const std::string& words = "expected") const {
    while (true) {
      const WorkerStatus worker = pool_->Workers()[0];
      if (!worker.up && worker.error.find(words) != std::string::npos) return worker.error;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  Metrics metrics_{MetricOwner::kCoordinator};
  std::vector<std::unique_ptr<Sums>> executors_;
  std::unique_ptr<WorkerService> services_[2];
  std::unique_ptr<WorkerPool> pool_;
};

// In an answer nobody computes otherwise than before; between answers all of them may, and are asked for
// anew.
TEST_F(WorkerStatusTest, OtherFormatsComeBetweenAnswersAndAreSaid) {
  ASSERT_EQ(*Call(), 3.0f);
  EXPECT_FALSE(pool_->TakeChange());
  const Slice other{.index = 0, .arithmetic = "--format=int8"};
  Serve(0, other);
  EXPECT_THAT(Refused(), HasSubstr("expected --format=bf16"));
  pool_->AnswersEnded();
  Refused("expected --format=bf16 as worker " + Address(1) + " does or did");  // that one is up
  Serve(1, {.index = 1, .arithmetic = "--format=int8"});
  ASSERT_TRUE(pool_->AwaitReady(kWorkerStatusPatienceMs).ok());
  EXPECT_TRUE(absl::IsUnavailable(Call().status())) << "nobody has asked for the change";
  EXPECT_TRUE(pool_->TakeChange());
  EXPECT_FALSE(pool_->TakeChange());
  EXPECT_EQ(*Call(), 3.0f);
  Serve(0, {.index = 0});
  EXPECT_THAT(Refused(), HasSubstr("expected --format=int8"));
}

// Three times in a row a coordinator died of the first of these, and answered wrong text with the second.
TEST_F(WorkerStatusTest, WhoComesBackAsAnotherSliceIsNotUsedAndWhoComesBackRightIs) {
  ASSERT_EQ(*Call(), 3.0f);
  const std::pair<Slice, const char*> wrong[] = {
      {{.index = 1}, "it is slice 1 of 2, which worker"},
      {{.index = 0, .by_expert = true}, "--slice=expert, expected --slice=intermediate"},
      {{.index = 3, .count = 4}, "give it --worker-count=2"},
      {{.index = 0, .count = 1}, "give it --worker-count=2"}};
  for (const auto& [slice, words] : wrong) {
    Serve(0, slice);
    EXPECT_THAT(Refused(), HasSubstr(words));
    EXPECT_FALSE(pool_->Ready());
    const absl::Status call = Call().status();
    EXPECT_TRUE(absl::IsUnavailable(call)) << call;
    EXPECT_THAT(pool_->AwaitReady(20).ToString(), AllOf(HasSubstr(Address(0)), HasSubstr(words)));
    std::atomic<uint32_t> release{0};
    EXPECT_TRUE(absl::IsUnavailable(pool_->BeginDirect(&release).status()));
    Serve(0, {.index = 0});
    ASSERT_TRUE(pool_->AwaitReady(kWorkerStatusPatienceMs).ok());
    EXPECT_EQ(*Call(), 3.0f);
  }
}

// A worker that says what no worker of this release says.
class Liar final : public v1::ExpertWorker::Service {
 public:
  explicit Liar(int slice_mode, int worker_count = 1, uint32_t protocol = kProtocolVersion)
      : slice_mode_(slice_mode), worker_count_(worker_count), protocol_(protocol) {}
  void Listen(const std::string& address = "127.0.0.1:0") {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  const std::string& address() const { return address_; }
  grpc::Status Handshake(grpc::ServerContext*, const v1::HandshakeRequest*,
                         v1::HandshakeReply* reply) override {
    reply->set_protocol_version(protocol_);
    reply->set_slice_mode(static_cast<v1::SliceMode>(slice_mode_));
    reply->set_worker_count(worker_count_);
    ++handshakes;
    reply->set_hidden_size(4);
    reply->set_num_experts(2);
    if (!ring_socket.empty()) {
      reply->set_host_id(HostId());
      reply->set_ring_socket(ring_socket);
    }
    if (away) return {grpc::StatusCode::UNAVAILABLE, "not now"};
    return grpc::Status::OK;
  }
  std::atomic<int> handshakes{0};
  std::atomic<bool> away{false};
  std::string ring_socket;  // that it says that it listens at

 private:
  const int slice_mode_;
  const int worker_count_;
  const uint32_t protocol_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

// As after one half of an upgrade: whoever speaks another protocol is refused, and who speaks ours is taken.
TEST_F(WorkerStatusTest, WhoComesBackWithAnotherProtocolIsNotUsed) {
  ASSERT_EQ(*Call(), 3.0f);
  for (const uint32_t protocol : {kProtocolVersion - 1, kProtocolVersion + 1}) {
    services_[0].reset();
    {
      Liar other(v1::SLICE_MODE_INTERMEDIATE, 2, protocol);
      other.Listen(Address(0));
      EXPECT_THAT(Refused("its protocol version is " + std::to_string(protocol)),
                  HasSubstr("run the same release on both sides"));
      EXPECT_TRUE(absl::IsUnavailable(Call().status()));
    }
    Serve(0, {.index = 0});
    ASSERT_TRUE(pool_->AwaitReady(kWorkerStatusPatienceMs).ok());
    EXPECT_EQ(*Call(), 3.0f);
  }
}

TEST(WorkerLinkTest, ASliceModeThatNobodyKnowsIsRefused) {
  for (const int mode : {0, 77}) {
    Liar liar(mode);
    liar.Listen();
    const auto link = WorkerLink::Connect(liar.address(), {.hidden_size = 4, .num_experts = 2});
    EXPECT_TRUE(absl::IsFailedPrecondition(link.status())) << link.status();
    EXPECT_THAT(link.status().ToString(),
                HasSubstr("its slice mode is " + std::to_string(mode) + ", expected 1"));
  }
}

TEST(WorkerLinkTest, AWorkerOfMoreWorkersThanThereAreIsRefused) {
  for (const int count : {0, 65, INT32_MAX}) {
    Liar liar(v1::SLICE_MODE_EXPERT, count);
    liar.Listen();
    const auto link = WorkerLink::Connect(liar.address(), {.hidden_size = 4, .num_experts = 2});
    EXPECT_TRUE(absl::IsFailedPrecondition(link.status())) << link.status();
    EXPECT_THAT(link.status().ToString(), HasSubstr("at most 64 workers"));
  }
}

// The waits between eight attempts are 5, 10, 20, ... 320 ms.
TEST(WorkerLinkTest, AWorkerThatIsAwayIsAskedLessAndLessOften) {
  Liar liar(v1::SLICE_MODE_EXPERT);
  liar.away = true;
  liar.Listen();
  const auto begun = std::chrono::steady_clock::now();
  std::thread connects([&] {
    Metrics metrics(MetricOwner::kCoordinator);
    (void)WorkerPool::Create({.addresses = {liar.address()},
                              .link = {.data_path = DataPath::kGrpc, .hidden_size = 4, .num_experts = 2},
                              .start_deadline_ms = kWorkerStatusPatienceMs},
                             metrics);
  });
  while (liar.handshakes < 8) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(5 * 127));
  liar.away = false;
  connects.join();
}

TEST(WorkerLinkTest, ASocketThatIsNoRingsIsNotConnectedTo) {
  Liar liar(v1::SLICE_MODE_EXPERT);
  liar.Listen();
  for (const std::string& name : {std::string("/org/freedesktop/DBus"), std::string("numoe-ring-12"),
                                  "numoe-ring-" + std::string(32, 'g'), std::string(200, 'a')}) {
    liar.ring_socket = name;
    const auto link = WorkerLink::Connect(
        liar.address(), {.data_path = DataPath::kSharedMemory, .hidden_size = 4, .num_experts = 2});
    EXPECT_TRUE(absl::IsInvalidArgument(link.status())) << link.status();
    EXPECT_THAT(link.status().ToString(), HasSubstr("expected numoe-ring- and 32 hexadecimal digits"));
  }
}

// Listens at an abstract socket as another user until it is killed; the child's number, or -1.
pid_t ListenAsAnother(const std::string& name) {
  int ready[2];
  if (pipe(ready) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (setgroups(0, nullptr) != 0 || setgid(64996) != 0 || setuid(64996) != 0 ||
        bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 || listen(listener, 4) != 0)
      _exit(1);
    (void)!write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte;
  close(ready[1]);
  const bool listens = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  return listens ? child : -1;
}

TEST(WorkerLinkTest, WhoMayNotShareMemoryIsNotBelievedOverAStreamEither) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  Liar liar(v1::SLICE_MODE_EXPERT);
  liar.ring_socket = "numoe-ring-" + fmt::format("{:032x}", getpid());
  const pid_t child = ListenAsAnother(liar.ring_socket);
  ASSERT_GT(child, 0);
  liar.Listen();
  const auto connect = [&](DataPath path) {
    return WorkerLink::Connect(liar.address(), {.data_path = path, .hidden_size = 4, .num_experts = 2})
        .status();
  };
  for (const DataPath path : {DataPath::kAuto, DataPath::kSharedMemory}) {
    const absl::Status refused = connect(path);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(refused.ToString(), AllOf(HasSubstr("of user 64996"), HasSubstr("--data-path=grpc")));
  }
  EXPECT_TRUE(connect(DataPath::kGrpc).ok()) << "it was asked for";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// --- a worker that answers the handshake and allows no stream after it: HTTP/2 as bytes --------------------

std::string FrameOf(char type, char flags, const std::string& content) {  // of the connection, or stream 1
  const bool of_stream = type != 4;
  return std::string{0, 0, static_cast<char>(content.size()),   type, flags, 0,
                     0, 0, static_cast<char>(of_stream ? 1 : 0)} +
         content;
}
std::string HeaderOf(const std::string& name, const std::string& value) {
  return std::string{0, static_cast<char>(name.size())} + name + static_cast<char>(value.size()) + value;
}

// Serves one connection until it is closed.
void AllowNoStreams(int connection, const std::string& reply) {
  const auto say = [&](const std::string& bytes) {
    (void)!send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  };
  say(FrameOf(4, 0, ""));
  std::string read;
  char buffer[4096];
  bool answered = false;
  constexpr size_t kPreface = 24, kFrameHead = 9;
  for (size_t at = kPreface; true;) {
    const ssize_t got = recv(connection, buffer, sizeof buffer, 0);
    if (got <= 0) return;
    read.append(buffer, static_cast<size_t>(got));
    while (at + kFrameHead <= read.size()) {
      const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(read[at + i])); };
      const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (at + kFrameHead + size > read.size()) break;
      if (byte(3) == 4 && (byte(4) & 1) == 0) say(FrameOf(4, 1, ""));
      if (byte(3) == 0 && (byte(4) & 1) != 0 && !std::exchange(answered, true)) {
        say(FrameOf(4, 0, std::string{0, 3, 0, 0, 0, 0}) +
            FrameOf(1, 4, "\x88" + HeaderOf("content-type", "application/grpc")) +
            FrameOf(0, 0, std::string{0, 0, 0, 0, static_cast<char>(reply.size())} + reply) +
            FrameOf(1, 5, HeaderOf("grpc-status", "0")));
      }
      at += kFrameHead + size;
    }
  }
}

TEST(WorkerLinkTest, AWorkerThatAllowsNoStreamDoesNotKeepUsWaiting) {
  v1::HandshakeReply reply;
  reply.set_protocol_version(kProtocolVersion);
  reply.set_slice_mode(v1::SLICE_MODE_EXPERT);
  reply.set_worker_count(1);
  reply.set_hidden_size(4);
  reply.set_num_experts(2);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof place;
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&place), bytes), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&place), &bytes), 0);
  std::thread serves([&] {
    const FileDescriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    AllowNoStreams(connection.get(), reply.SerializeAsString());
  });
  {
    const auto link = WorkerLink::Connect("127.0.0.1:" + std::to_string(ntohs(place.sin_port)),
                                          {.data_path = DataPath::kGrpc,
                                           .hidden_size = 4,
                                           .num_experts = 2,
                                           .heartbeat_ms = 1,
                                           .heartbeat_deadline_ms = 200});
    ASSERT_TRUE(link.ok()) << link.status();
    absl::Status alive;
    while (alive.ok()) alive = (*link)->Alive();
    EXPECT_TRUE(absl::IsUnavailable(alive)) << alive;
  }
  serves.join();
}

}  // namespace
}  // namespace numoe
