#include "expert_worker/tools/transport_bench.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/transport/mailbox_channel.h"
#include "expert_worker/tools/bench_timing.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe::worker {
namespace {

constexpr size_t kSlotBytes = 8u << 20;
constexpr size_t kFanOutBytes = 14336;
struct Payload {
  size_t bytes;
  int rounds;
};
constexpr Payload kPayloads[] = {{14336, 3000}, {229376, 800}, {7340032, 60}};
static_assert(std::all_of(std::begin(kPayloads), std::end(kPayloads),
                          [](const Payload& payload) { return payload.bytes <= kSlotBytes; }));
static_assert(kFanOutBytes <= kSlotBytes);

// A child process. It is killed when this program ends, however that happens.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ < 0) std::abort();  // otherwise the destructor would kill all processes of this user
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    _exit(0);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  const pid_t pid_;
};

struct MailboxEcho {
  std::unique_ptr<MailboxChannel> channel;
  std::unique_ptr<Child> child;
};

MailboxEcho StartMailboxEcho(int cpu) {
  absl::StatusOr<MailboxSegment> segment = MailboxSegment::Create(kSlotBytes);
  absl::StatusOr<MailboxSegment> theirs =
      MailboxSegment::Attach(FileDescriptor(dup(segment->fd())), kSlotBytes);
  int sockets[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) std::abort();
  FileDescriptor ours(sockets[0]), childs(sockets[1]);
  MailboxEcho echo;
  echo.child = std::make_unique<Child>([&] {
    PinTo(cpu);
    close(ours.get());
    MailboxChannel channel(*std::move(theirs), Side::kWorker, std::move(childs));
    while (true) {
      const auto message = channel.Receive(-1, 300);
      if (!message.ok()) return;
      std::memcpy(channel.Outgoing().data(), message->data(), message->size());
      channel.Publish(message->size());
    }
  });
  echo.channel = std::make_unique<MailboxChannel>(*std::move(segment), Side::kCoordinator, std::move(ours));
  return echo;
}

void MailboxRound(const std::vector<MailboxEcho*>& echoes, const std::vector<char>& in,
                  std::vector<char>& out, size_t bytes) {
  NUMOE_CHECK(bytes <= in.size() && bytes <= out.size());
  for (MailboxEcho* echo : echoes) {
    std::memcpy(echo->channel->Outgoing().data(), in.data(), bytes);
    echo->channel->Publish(bytes);
  }
  for (MailboxEcho* echo : echoes) {
    const auto reply = echo->channel->Receive(10'000, 300);
    if (!reply.ok()) std::abort();
    std::memcpy(out.data(), reply->data(), bytes);
  }
}

// The same service definition as the product's: a unary call and a stream that return the payload. The unary
// call carries it in the description of a handshake.
class EchoService final : public v1::ExpertWorker::Service {
  grpc::Status Handshake(grpc::ServerContext*, const v1::HandshakeRequest* request,
                         v1::HandshakeReply* reply) override {
    reply->set_description(request->coordinator());
    return grpc::Status::OK;
  }
  grpc::Status LayerCalls(grpc::ServerContext*,
                          grpc::ServerReaderWriter<v1::LayerReply, v1::LayerCall>* stream) override {
    v1::LayerCall call;
    v1::LayerReply reply;
    while (stream->Read(&call)) {
      reply.set_partial(call.hidden());
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }
};

std::unique_ptr<Child> StartGrpcEcho(const std::string& address, int cpu) {
  return std::make_unique<Child>([address, cpu] {
    PinTo(cpu);
    EchoService service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    builder.RegisterService(&service);
    builder.BuildAndStart()->Wait();
  });
}

}  // namespace

int RunTransportBench(bool json) {
  // All children are started before the first gRPC call of this process, because gRPC does not survive a
  // fork.
  const std::string address = fmt::format("unix:/tmp/numoe-bench-{}.sock", getpid());
  const std::unique_ptr<Child> grpc_child = StartGrpcEcho(address, 1);
  std::vector<MailboxEcho> mailboxes;
  for (int i = 0; i < 3; ++i) mailboxes.push_back(StartMailboxEcho(1 + i));
  PinTo(0);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10))) {
    std::fprintf(stderr, "numoe-kernel-bench: the echo server at %s did not start\n", address.c_str());
    return 1;
  }
  const auto stub = v1::ExpertWorker::NewStub(channel);
  grpc::ClientContext stream_context;
  const auto stream = stub->LayerCalls(&stream_context);
  std::vector<char> in(kSlotBytes, 'x'), out(kSlotBytes);
  if (!json)
    std::printf("%12s %12s %12s %12s %12s %8s\n", "bytes", "mailbox p50", "mailbox p99", "unary p50",
                "stream p50", "ratio");
  for (const Payload& payload : kPayloads) {
    const Quantiles mailbox =
        Measure(payload.rounds, [&] { MailboxRound({&mailboxes[0]}, in, out, payload.bytes); });
    const Quantiles unary = Measure(payload.rounds / 2, [&] {
      grpc::ClientContext context;
      v1::HandshakeRequest request;
      v1::HandshakeReply reply;
      request.set_coordinator(in.data(), payload.bytes);
      if (!stub->Handshake(&context, request, &reply).ok()) std::abort();
      std::memcpy(out.data(), reply.description().data(), payload.bytes);
    });
    v1::LayerCall call;
    v1::LayerReply reply;
    const Quantiles streamed = Measure(payload.rounds / 2, [&] {
      call.set_hidden(in.data(), payload.bytes);
      if (!stream->Write(call) || !stream->Read(&reply)) std::abort();
      std::memcpy(out.data(), reply.partial().data(), payload.bytes);
    });
    const char* format =
        json ? "{{\"payload_bytes\": {}, \"mailbox_p50_us\": {:.2f}, \"mailbox_p99_us\": {:.2f}, "
               "\"grpc_unary_p50_us\": {:.2f}, \"grpc_stream_p50_us\": {:.2f}, \"ratio\": {:.2f}}}\n"
             : "{:12} {:12.2f} {:12.2f} {:12.2f} {:12.2f} {:8.2f}\n";
    std::fputs(fmt::format(fmt::runtime(format), payload.bytes, mailbox.p50, mailbox.p99, unary.p50,
                           streamed.p50, unary.p50 / mailbox.p50)
                   .c_str(),
               stdout);
  }
  const Quantiles fan = Measure(3000, [&] {
    MailboxRound({&mailboxes[0], &mailboxes[1], &mailboxes[2]}, in, out, kFanOutBytes);
  });
  std::fputs(
      fmt::format(fmt::runtime(json ? "{{\"fan_out_workers\": 3, \"payload_bytes\": {}, \"mailbox_p50_us\": "
                                      "{:.2f}, \"mailbox_p99_us\": {:.2f}}}\n"
                                    : "fan-out of {} bytes to 3 workers: p50 {:.2f} us, p99 {:.2f} us\n"),
                  kFanOutBytes, fan.p50, fan.p99)
          .c_str(),
      stdout);
  stream_context.TryCancel();
  stream->Finish();
  unlink(address.substr(5).c_str());
  return 0;
}

}  // namespace numoe::worker
