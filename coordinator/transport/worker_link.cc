#include "coordinator/transport/worker_link.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/transport/grpc_status.h"
#include "common/transport/host_id.h"
#include "common/transport/ring_channel.h"
#include "common/transport/tls_credentials.h"
#include "coordinator/transport/heartbeat.h"
#include "coordinator/transport/tls_probe.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe {
namespace {

constexpr int kConnectTimeoutMs = 2'000;

bool IsUnix(const std::string& address) { return address.rfind("unix:", 0) == 0; }

void AddTo(absl::Span<float> out, const float* partial) {
  for (size_t i = 0; i < out.size(); ++i) out[i] += partial[i];
}

std::chrono::system_clock::time_point In(int64_t milliseconds) {
  return std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds);
}

absl::StatusOr<ExpertRows> AskCountedRows(const std::shared_ptr<grpc::Channel>& channel, int num_experts,
                                          int64_t deadline_ms) {
  grpc::ClientContext context;
  context.set_deadline(In(deadline_ms));
  v1::ExpertStatsReply reply;
  const grpc::Status answered = v1::ExpertWorker::NewStub(channel)->GetExpertStats(&context, {}, &reply);
  if (!answered.ok()) return FromGrpc(answered);
  if (reply.layers() < 0 || reply.layers() > limits::kLayersMax || reply.experts() != num_experts ||
      reply.rows_size() != reply.layers() * num_experts) {
    return absl::InternalError(
        fmt::format("statistics of {} rows for {} layers of {} experts, expected {} experts",
                    reply.rows_size(), reply.layers(), reply.experts(), num_experts));
  }
  return ExpertRows{
      .layers = reply.layers(), .experts = num_experts, .rows = {reply.rows().begin(), reply.rows().end()}};
}

SharedExperts ReadDirectory(const v1::SharedExperts& shared) {
  SharedExperts directory{.bytes = shared.bytes(), .width = shared.width(), .first = shared.first()};
  for (const v1::SharedLayer& layer : shared.layers()) {
    directory.layers.push_back({.layer = layer.layer(),
                                .offset = layer.offset(),
                                .expert_bytes = layer.expert_bytes(),
                                .up_format = layer.up_format(),
                                .down_format = layer.down_format()});
  }
  return directory;
}

// --- shared memory -----------------------------------------------------------------------------------------

class RingLink final : public WorkerLink {
 public:
  RingLink(WorkerIdentity identity, const LinkOptions& options, std::shared_ptr<grpc::Channel> control)
      : identity_(std::move(identity)), options_(options), control_(std::move(control)) {}

  ~RingLink() override {
    if (holder_.joinable()) {
      close_.store(true);
      close_.notify_all();
      holder_.join();
    }
    if (socket_ >= 0) close(socket_);
  }

  // `shared`: of the handshake, where the weights are wanted and shared; else null.
  absl::Status Attach(const std::string& name, const v1::SharedExperts* shared) {
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof address.sun_path)
      return absl::FailedPreconditionError("ring socket name is too long");
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const timeval timeout{kConnectTimeoutMs / 1000, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0) {
      return absl::UnavailableError(fmt::format("ring socket {}: {}", name, std::strerror(errno)));
    }
    ASSIGN_OR_RETURN(const int fd, ReceiveDescriptor(socket_));
    ASSIGN_OR_RETURN(RingSegment segment, RingSegment::Attach(fd));
    channel_ = std::make_shared<RingChannel>(std::move(segment), Side::kCoordinator);
    if (shared != nullptr) {
      if (const absl::Status mapped = MapExperts(*shared); !mapped.ok())
        LogWarning("the worker's weights are not mapped: {}", std::string(mapped.message()));
    }
    // The thread that holds our side must live as long as the session: robust mutexes belong to threads.
    std::atomic<bool> held{false};
    holder_ = std::thread([this, &held] {
      pthread_setname_np(pthread_self(), "ring-holder");
      channel_->Hold();
      held.store(true);
      held.notify_all();
      close_.wait(false);
      channel_->Release();
    });
    held.wait(false);
    return Say(kAttached);
  }

  const WorkerIdentity& identity() const override { return identity_; }

  absl::Status Send(uint64_t call_id, const LayerCallView& call) override {
    const absl::Span<std::byte> slot = channel_->Outgoing();
    const size_t needed = RequestBytes(call.tokens, call.experts_per_token, options_.hidden_size);
    if (needed > slot.size())
      return absl::FailedPreconditionError(
          fmt::format("a call of {} bytes does not fit the ring slot of {}", needed, slot.size()));
    if (call.deferred_experts > 0 && ReplyBytes(call.tokens, options_.hidden_size) > slot.size() / 2) {
      return absl::FailedPreconditionError(fmt::format(
          "two replies of {} tokens do not fit the ring slot of {} bytes", call.tokens, slot.size()));
    }
    channel_->Publish(EncodeRequest(call_id, call, slot));
    return absl::OkStatus();
  }

  absl::Status Receive(uint64_t call_id, ReplyPart part, absl::Span<float> out) override {
    ASSIGN_OR_RETURN(const auto message,
                     channel_->Receive(options_.call_deadline_ms, options_.spin_us, part));
    ASSIGN_OR_RETURN(const auto partial, DecodeReply(message, call_id, out.size()));
    AddTo(out, partial.data());
    return absl::OkStatus();
  }

  absl::StatusOr<DirectPort> BeginDirect() override {
    channel_->HoldPeerAwake(true);
    const RingSegment& segment = channel_->segment();
    Mailbox& requests = RingChannel::Mail(segment, Side::kCoordinator, ReplyPart::kImmediate);
    Mailbox& replies = RingChannel::Mail(segment, Side::kWorker, ReplyPart::kImmediate);
    Mailbox& deferred = RingChannel::Mail(segment, Side::kWorker, ReplyPart::kDeferred);
    return DirectPort{.segment = segment.bytes(),
                      .mapping = channel_,
                      .request = channel_->Outgoing(),
                      .request_published = reinterpret_cast<uint32_t*>(&requests.published),
                      .request_length = &requests.length,
                      .reply = RingChannel::Slot(segment, Side::kWorker, ReplyPart::kImmediate),
                      .reply_published = reinterpret_cast<const uint32_t*>(&replies.published),
                      .deferred_reply = RingChannel::Slot(segment, Side::kWorker, ReplyPart::kDeferred),
                      .deferred_published = reinterpret_cast<const uint32_t*>(&deferred.published),
                      .requests = requests.published.load(),
                      .replies = channel_->received(ReplyPart::kImmediate),
                      .deferred = channel_->received(ReplyPart::kDeferred)};
  }

  void EndDirect(int calls, int deferring) override {
    channel_->HoldPeerAwake(false);
    channel_->Advance(static_cast<uint32_t>(calls), ReplyPart::kImmediate);
    channel_->Advance(static_cast<uint32_t>(deferring), ReplyPart::kDeferred);
  }

  absl::StatusOr<ExpertRows> CountedRows(int64_t deadline_ms) override {
    return AskCountedRows(control_, options_.num_experts, deadline_ms);
  }

  std::shared_ptr<ExpertMemory> experts() const override { return experts_; }
  absl::Status Alive() override {
    return channel_->PeerAlive() ? absl::OkStatus() : absl::UnavailableError("the worker is gone");
  }
  void Abort() override {}  // Receive has its own deadline

 private:
  absl::Status Say(char what) {
    if (send(socket_, &what, 1, MSG_NOSIGNAL) == 1) return absl::OkStatus();
    return absl::UnavailableError("the worker closed the ring socket");
  }

  absl::Status MapExperts(const v1::SharedExperts& shared) {
    RETURN_IF_ERROR(Say(kWantExperts));
    ASSIGN_OR_RETURN(const int fd, ReceiveDescriptor(socket_));
    ASSIGN_OR_RETURN(experts_, ExpertMemory::Map(fd, ReadDirectory(shared),
                                                 {.by_expert = identity_.slice_by_expert,
                                                  .worker_index = identity_.worker_index,
                                                  .worker_count = identity_.worker_count,
                                                  .num_experts = options_.num_experts}));
    return absl::OkStatus();
  }

  const WorkerIdentity identity_;
  const LinkOptions options_;
  const std::shared_ptr<grpc::Channel> control_;
  int socket_ = -1;
  std::shared_ptr<RingChannel> channel_;
  std::shared_ptr<ExpertMemory> experts_;
  std::atomic<bool> close_{false};
  std::thread holder_;
};

// --- gRPC stream -------------------------------------------------------------------------------------------

class StreamLink final : public WorkerLink {
 public:
  StreamLink(WorkerIdentity identity, const LinkOptions& options, std::shared_ptr<grpc::Channel> channel)
      : identity_(std::move(identity)),
        options_(options),
        channel_(std::move(channel)),
        stub_(v1::ExpertWorker::NewStub(channel_)),
        heartbeat_(*stub_, options.heartbeat_ms, options.heartbeat_deadline_ms) {
    stream_ = stub_->LayerCalls(&context_);
  }

  ~StreamLink() override {
    context_.TryCancel();
    stream_->Finish();
  }

  const WorkerIdentity& identity() const override { return identity_; }

  absl::Status Send(uint64_t call_id, const LayerCallView& call) override {
    request_.set_call_id(call_id);
    request_.set_layer(call.layer);
    request_.set_tokens(call.tokens);
    request_.set_experts_per_token(call.experts_per_token);
    request_.set_deferred_experts(call.deferred_experts);
    request_.set_exact(call.exact);
    request_.set_hidden(call.hidden.data(), call.hidden.size() * sizeof(float));
    request_.set_experts(call.experts.data(), call.experts.size() * sizeof(ExpertId));
    request_.set_weights(call.weights.data(), call.weights.size() * sizeof(float));
    return stream_->Write(request_) ? absl::OkStatus()
                                    : absl::UnavailableError("the stream to the worker broke");
  }

  absl::Status Receive(uint64_t call_id, ReplyPart part, absl::Span<float> out) override {
    if (!stream_->Read(&reply_)) return absl::UnavailableError("the stream to the worker broke");
    if (reply_.call_id() != call_id)
      return absl::InvalidArgumentError(
          fmt::format("reply to call {}, expected {}", reply_.call_id(), call_id));
    if (reply_.deferred() != (part == ReplyPart::kDeferred)) {
      return absl::InvalidArgumentError(fmt::format("reply for {} experts, expected the others'",
                                                    reply_.deferred() ? "deferred" : "undeferred"));
    }
    if (reply_.status_code() != 0) {
      return absl::InternalError(fmt::format("the worker refused the call (code {}): {}",
                                             reply_.status_code(), reply_.status_message()));
    }
    if (reply_.partial().size() != out.size() * sizeof(float)) {
      return absl::InvalidArgumentError(
          fmt::format("reply of {} bytes, expected {}", reply_.partial().size(), out.size() * sizeof(float)));
    }
    partial_.resize(out.size());
    std::memcpy(partial_.data(), reply_.partial().data(), reply_.partial().size());
    AddTo(out, partial_.data());
    return absl::OkStatus();
  }

  absl::StatusOr<ExpertRows> CountedRows(int64_t deadline_ms) override {
    return AskCountedRows(channel_, options_.num_experts, deadline_ms);
  }

  absl::Status Alive() override {
    if (channel_->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY)
      return absl::UnavailableError("the connection to the worker broke");
    return heartbeat_.Look();
  }
  void Abort() override { context_.TryCancel(); }

 private:
  const WorkerIdentity identity_;
  const LinkOptions options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::ExpertWorker::Stub> stub_;
  Heartbeat heartbeat_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::LayerCall, v1::LayerReply>> stream_;
  v1::LayerCall request_;
  v1::LayerReply reply_;
  std::vector<float> partial_;
};

absl::Status CheckHandshake(const std::string& address, const v1::HandshakeReply& reply,
                            const LinkOptions& options) {
  const auto mismatch = [&](const char* what, const auto& found, const auto& expected, const char* advice) {
    return absl::FailedPreconditionError(
        fmt::format("worker {}: {} is {}, expected {}; {}", address, what, found, expected, advice));
  };
  if (reply.protocol_version() != kProtocolVersion)
    return mismatch("protocol version", reply.protocol_version(), kProtocolVersion,
                    "run the same release on both sides");
  if (reply.model_fingerprint() != options.model_fingerprint) {
    return mismatch("model fingerprint", fmt::format("{:016x}", reply.model_fingerprint()),
                    fmt::format("{:016x}", options.model_fingerprint),
                    "it serves another checkpoint: give both the same --model");
  }
  if (reply.hidden_size() != options.hidden_size)
    return mismatch("hidden size", reply.hidden_size(), options.hidden_size, "it serves another checkpoint");
  if (reply.num_experts() != options.num_experts)
    return mismatch("expert count", reply.num_experts(), options.num_experts, "it serves another checkpoint");
  if (reply.worker_count() < 1 || reply.worker_index() < 0 || reply.worker_index() >= reply.worker_count()) {
    return mismatch("slice", fmt::format("{}/{}", reply.worker_index(), reply.worker_count()),
                    "an index below the count", "check --worker-index and --worker-count");
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address, const TlsIdentity* tls) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                   1);  // a reconnect must not inherit a dead connection's back-off
  return grpc::CreateCustomChannel(
      address, tls == nullptr ? grpc::InsecureChannelCredentials() : TlsChannelCredentials(*tls), arguments);
}

// gRPC's word for it says who does not answer, but not why two ends refuse each other.
absl::Status ExplainFailure(const std::string& address, const TlsIdentity* tls, grpc::Channel& channel,
                            const grpc::Status& failure) {
  const bool connected = channel.GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  if (!IsUnix(address) && !connected && failure.error_code() == grpc::StatusCode::UNAVAILABLE)
    RETURN_IF_ERROR(ProbeTls(address, tls, std::chrono::milliseconds(kConnectTimeoutMs)));
  return absl::UnavailableError(failure.error_message());  // the pool says whose
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerLink>> WorkerLink::Connect(const std::string& address,
                                                                const LinkOptions& options) {
  const bool secure = options.tls != nullptr && !IsUnix(address);
  const std::shared_ptr<const TlsIdentity> tls = secure ? options.tls->Current() : nullptr;
  const std::shared_ptr<grpc::Channel> channel = OpenChannel(address, tls.get());
  const auto stub = v1::ExpertWorker::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(In(kConnectTimeoutMs));
  v1::HandshakeRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_coordinator(fmt::format("pid {}", getpid()));
  v1::HandshakeReply reply;
  const grpc::Status shaken = stub->Handshake(&context, request, &reply);
  if (!shaken.ok()) return ExplainFailure(address, tls.get(), *channel, shaken);
  RETURN_IF_ERROR(CheckHandshake(address, reply, options));
  WorkerIdentity identity{.slice_by_expert = reply.slice_mode() == v1::SLICE_MODE_EXPERT,
                          .worker_index = reply.worker_index(),
                          .worker_count = reply.worker_count(),
                          .description = reply.description(),
                          .shared_memory = false};
  const bool same_host =
      !reply.ring_socket().empty() && !reply.host_id().empty() && reply.host_id() == HostId();
  if (options.data_path == DataPath::kSharedMemory && !same_host) {
    return absl::FailedPreconditionError(fmt::format(
        "worker {}: --data-path=shm, but it is on another host or offers no shared memory", address));
  }
  if (options.data_path != DataPath::kGrpc && same_host) {
    identity.shared_memory = true;
    auto link = std::make_unique<RingLink>(identity, options, channel);
    const bool map = options.map_experts && reply.has_shared_experts();
    const absl::Status attached = link->Attach(reply.ring_socket(), map ? &reply.shared_experts() : nullptr);
    if (attached.ok()) return link;
    // Another network namespace cannot reach an abstract socket: the stream works there.
    if (options.data_path == DataPath::kSharedMemory) return Annotate(attached, address);
    identity.shared_memory = false;
  }
  return std::make_unique<StreamLink>(identity, options, channel);
}

}  // namespace numoe
