#include "coordinator/execution/transport/worker_link.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "common/base/check.h"
#include "common/base/file_descriptor.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/transport/grpc_status.h"
#include "common/transport/host_id.h"
#include "common/transport/mailbox_channel.h"
#include "common/transport/peer_credentials.h"
#include "common/transport/tls_credentials.h"
#include "common/transport/transport_limits.h"
#include "coordinator/execution/transport/heartbeat.h"
#include "coordinator/execution/transport/tls_probe.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe::execution {
namespace {

constexpr int kConnectTimeoutMs = 2'000;
// Long, because a worker creates segments one by one, hundreds of MiB each; a session without one stays slow.
constexpr int kMailboxTimeoutMs = 10'000;

constexpr std::string_view kUnixPrefix = "unix:";

bool IsUnix(const std::string& address) { return address.rfind(kUnixPrefix, 0) == 0; }

void AddTo(absl::Span<float> out, const float* partial) {
  NUMOE_DCHECK(out.empty() || partial != nullptr);
  for (size_t i = 0; i < out.size(); ++i) out[i] += partial[i];
}

std::chrono::system_clock::time_point DeadlineIn(int64_t milliseconds) {
  return std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds);
}

absl::StatusOr<ExpertRows> RequestCountedRows(const std::shared_ptr<grpc::Channel>& channel, int num_experts,
                                              int64_t deadline_ms) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(deadline_ms));
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

MappedWeights ReadDirectory(const v1::MappedWeights& shared) {
  MappedWeights directory{.bytes = shared.bytes(), .width = shared.width(), .first = shared.first()};
  for (const v1::MappedLayer& layer : shared.layers()) {
    directory.layers.push_back({.layer = layer.layer(),
                                .offset = layer.offset(),
                                .expert_bytes = layer.expert_bytes(),
                                .up_format = layer.up_format(),
                                .down_format = layer.down_format()});
  }
  return directory;
}

// --- shared memory -----------------------------------------------------------------------------------------

// Only such names are accepted: a worker must not make us connect to another program's socket on this host.
constexpr std::string_view kMailboxNamePrefix = "numoe-mailbox-";
constexpr size_t kMailboxNameDigits = 32, kMailboxNameBytes = kMailboxNamePrefix.size() + kMailboxNameDigits;
static_assert(kMailboxNameDigits == 2 * 2 * sizeof(uint64_t), "two numbers of 64 bits from RandomId");

bool IsMailboxName(std::string_view name) {
  return name.size() == kMailboxNameBytes &&
         name.substr(0, kMailboxNamePrefix.size()) == kMailboxNamePrefix &&
         name.find_first_not_of("0123456789abcdef", kMailboxNamePrefix.size()) == std::string_view::npos;
}

// Returns a connected socket whose other end belongs to a process whose memory may be mapped.
absl::StatusOr<FileDescriptor> ConnectMailbox(const std::string& name, std::optional<gid_t> group) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  static_assert(kMailboxNameBytes < sizeof address.sun_path);
  if (!IsMailboxName(name)) {
    return absl::InvalidArgumentError(fmt::format(
        "the name of the mailbox socket is \"{}\", expected {} and {} hexadecimal digits; run the "
        "same release on both sides",
        absl::CHexEscape(name.substr(0, kMailboxNameBytes)), kMailboxNamePrefix, kMailboxNameDigits));
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  FileDescriptor mailbox(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval timeout{kMailboxTimeoutMs / 1000, 0};
  setsockopt(mailbox.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(mailbox.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);  // it also limits connect
  if (connect(mailbox.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
    return absl::UnavailableError(fmt::format("mailbox socket {}: {}", name, std::strerror(errno)));
  RETURN_IF_ERROR(CheckPeerOf(mailbox.get(), group));
  return mailbox;
}

// Returns the size of the largest call; the worker decides how many experts a token has.
size_t SlotBytesMax(int hidden_size) {
  return RequestBytes(limits::kCallTokensMax, limits::kExpertsPerTokenMax, hidden_size);
}

absl::Status SendByte(int socket, char byte) {
  if (send(socket, &byte, 1, MSG_NOSIGNAL) == 1) return absl::OkStatus();
  return absl::UnavailableError("the worker closed the mailbox socket");
}

class MailboxLink final : public WorkerLink {
 public:
  MailboxLink(WorkerIdentity identity, const LinkOptions& options, std::shared_ptr<grpc::Channel> control)
      : identity_(std::move(identity)),
        options_(options),
        control_(std::move(control)),
        stub_(v1::ExpertWorker::NewStub(control_)),
        heartbeat_(*stub_, options.heartbeat_ms, options.heartbeat_deadline_ms) {}

  // A device may keep the channel longer than the session lasts, so Close ends the session for the worker.
  ~MailboxLink() override {
    if (channel_ != nullptr) channel_->Close();
  }

  // `shared` is the handshake's directory of weights, or null if the weights are not to be mapped.
  absl::Status Attach(const std::string& name, const v1::MappedWeights* shared) {
    NUMOE_CHECK(channel_ == nullptr) << "the session is attached already";
    ASSIGN_OR_RETURN(FileDescriptor mailbox, ConnectMailbox(name, options_.shared_memory_group));
    ASSIGN_OR_RETURN(FileDescriptor fd, ReceiveDescriptor(mailbox.get()));
    ASSIGN_OR_RETURN(MailboxSegment segment,
                     MailboxSegment::Attach(std::move(fd), SlotBytesMax(options_.hidden_size)));
    if (shared != nullptr) {
      if (const absl::Status mapped = MapExperts(mailbox.get(), *shared); !mapped.ok())
        LogWarning("the worker's weights are not mapped: {}", std::string(mapped.message()));
    }
    heartbeat_.SetSession(segment.session());
    RETURN_IF_ERROR(SendByte(mailbox.get(), kAttached));
    channel_ = std::make_shared<MailboxChannel>(std::move(segment), Side::kCoordinator, std::move(mailbox));
    return absl::OkStatus();
  }

  const WorkerIdentity& identity() const override { return identity_; }

  absl::Status Send(uint64_t call_id, const LayerCallView& view) override {
    NUMOE_CHECK(channel_ != nullptr) << "the session is not attached yet";
    LayerCallView call = view;
    call.instance = identity_.instance;
    const absl::Span<std::byte> slot = channel_->Outgoing();
    const size_t needed = RequestBytes(call.tokens, call.experts_per_token, options_.hidden_size);
    if (needed > slot.size())
      return absl::FailedPreconditionError(fmt::format(
          "a call of {} bytes does not fit into the mailbox slot of {} bytes", needed, slot.size()));
    if (call.deferred_experts > 0 && ReplyBytes(call.tokens, options_.hidden_size) > slot.size() / 2) {
      return absl::FailedPreconditionError(fmt::format(
          "two replies of {} tokens do not fit into the mailbox slot of {} bytes", call.tokens, slot.size()));
    }
    channel_->Publish(EncodeRequest(call_id, call, slot));
    return absl::OkStatus();
  }

  absl::Status Receive(uint64_t call_id, ReplyPart part, int64_t deadline_ms,
                       absl::Span<float> out) override {
    ASSIGN_OR_RETURN(const auto message, channel_->Receive(deadline_ms, options_.spin_us, part));
    ASSIGN_OR_RETURN(const auto partial, DecodeReply(message, call_id, out.size()));
    AddTo(out, partial.data());
    return absl::OkStatus();
  }

  absl::StatusOr<MailboxEndpoint> BeginDirect() override {
    static_assert(sizeof(Mailbox::published) == sizeof(uint32_t) &&
                  sizeof(Mailbox::length) == sizeof(uint64_t));
    channel_->HoldPeerAwake(true);
    const MailboxSegment& segment = channel_->segment();
    Mailbox& requests = MailboxChannel::Mail(segment, Side::kCoordinator, ReplyPart::kImmediate);
    Mailbox& replies = MailboxChannel::Mail(segment, Side::kWorker, ReplyPart::kImmediate);
    Mailbox& deferred = MailboxChannel::Mail(segment, Side::kWorker, ReplyPart::kDeferred);
    return MailboxEndpoint{
        .instance = identity_.instance,
        .segment = segment.bytes(),
        .mapping = channel_,
        .request = channel_->Outgoing(),
        .request_published = reinterpret_cast<uint32_t*>(&requests.published),
        .request_length = reinterpret_cast<uint64_t*>(&requests.length),
        .reply = MailboxChannel::Slot(segment, Side::kWorker, ReplyPart::kImmediate),
        .reply_published = reinterpret_cast<const uint32_t*>(&replies.published),
        .deferred_reply = MailboxChannel::Slot(segment, Side::kWorker, ReplyPart::kDeferred),
        .deferred_published = reinterpret_cast<const uint32_t*>(&deferred.published),
        .requests = channel_->sent(ReplyPart::kImmediate),
        .replies = channel_->received(ReplyPart::kImmediate),
        .deferred = channel_->received(ReplyPart::kDeferred)};
  }

  void EndDirect(int calls, int deferring) override {
    NUMOE_CHECK(0 <= deferring && deferring <= calls);
    channel_->HoldPeerAwake(false);
    channel_->Advance(static_cast<uint32_t>(calls), static_cast<uint32_t>(deferring));
  }

  absl::StatusOr<ExpertRows> CountedRows(int64_t deadline_ms) override {
    return RequestCountedRows(control_, options_.num_experts, deadline_ms);
  }

  std::shared_ptr<ExpertMemory> experts() const override { return experts_; }
  absl::Status Alive() override {
    return channel_->PeerAlive() ? heartbeat_.Poll() : absl::UnavailableError("the worker is gone");
  }
  void Abort() override { channel_->Close(); }

 private:
  absl::Status MapExperts(int mailbox, const v1::MappedWeights& shared) {
    RETURN_IF_ERROR(SendByte(mailbox, kWantWeights));
    ASSIGN_OR_RETURN(FileDescriptor fd, ReceiveDescriptor(mailbox));
    ASSIGN_OR_RETURN(experts_, ExpertMemory::Map(std::move(fd), ReadDirectory(shared),
                                                 {.by_expert = identity_.slice_by_expert,
                                                  .worker_index = identity_.worker_index,
                                                  .worker_count = identity_.worker_count,
                                                  .num_experts = options_.num_experts}));
    return absl::OkStatus();
  }

  const WorkerIdentity identity_;
  const LinkOptions options_;
  const std::shared_ptr<grpc::Channel> control_;
  const std::unique_ptr<v1::ExpertWorker::Stub> stub_;
  Heartbeat heartbeat_;
  std::shared_ptr<MailboxChannel> channel_;
  std::shared_ptr<ExpertMemory> experts_;
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
    // Sent with the first call; otherwise this would wait for ever for a worker that accepts no stream.
    context_.set_initial_metadata_corked(true);
    stream_ = stub_->LayerCalls(&context_);
  }

  ~StreamLink() override {
    context_.TryCancel();
    if (!finished_) stream_->Finish();
  }

  const WorkerIdentity& identity() const override { return identity_; }

  absl::Status Send(uint64_t call_id, const LayerCallView& call) override {
    NUMOE_CHECK_EQ(call.experts.size(), call.weights.size());
    NUMOE_CHECK_EQ(call.hidden.size(),
                   static_cast<size_t>(call.tokens) * static_cast<size_t>(options_.hidden_size));
    request_.set_call_id(call_id);
    request_.set_instance(identity_.instance);
    request_.set_layer(call.layer);
    request_.set_tokens(call.tokens);
    request_.set_experts_per_token(call.experts_per_token);
    request_.set_deferred_experts(call.deferred_experts);
    request_.set_exact(call.batch_invariant);
    request_.set_hidden(call.hidden.data(), call.hidden.size() * sizeof(float));
    request_.set_experts(call.experts.data(), call.experts.size() * sizeof(ExpertId));
    request_.set_weights(call.weights.data(), call.weights.size() * sizeof(float));
    return stream_->Write(request_) ? absl::OkStatus()
                                    : absl::UnavailableError("the stream to the worker broke");
  }

  // ExpertFanOut's watchdog ends a stream that is not answered in time.
  absl::Status Receive(uint64_t call_id, ReplyPart part, int64_t /*deadline_ms*/,
                       absl::Span<float> out) override {
    if (!stream_->Read(&reply_)) return Broken();
    if (reply_.call_id() != call_id)
      return absl::InvalidArgumentError(
          fmt::format("reply to call {}, expected {}", reply_.call_id(), call_id));
    if (reply_.deferred() != (part == ReplyPart::kDeferred)) {
      return absl::InvalidArgumentError(fmt::format("reply for the {} experts, expected the other reply",
                                                    reply_.deferred() ? "deferred" : "immediate"));
    }
    if (reply_.status_code() != 0) {
      return absl::InternalError(fmt::format("the worker refused the call (code {}): {}",
                                             reply_.status_code(),
                                             reply_.status_message().substr(0, limits::kPeerTextBytesMax)));
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
    return RequestCountedRows(channel_, options_.num_experts, deadline_ms);
  }

  absl::Status Alive() override {
    if (channel_->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY)
      return absl::UnavailableError("the connection to the worker broke");
    return heartbeat_.Poll();
  }
  void Abort() override { context_.TryCancel(); }

 private:
  // Returns the error with which the worker ended the stream, after a Read has found it ended.
  absl::Status Broken() {
    if (finished_) return absl::UnavailableError("the stream to the worker broke");
    finished_ = true;
    return absl::UnavailableError(
        fmt::format("the stream to the worker broke: {}", stream_->Finish().error_message()));
  }

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
  bool finished_ = false;
};

absl::Status Mismatch(const char* what, const auto& found, const auto& expected, const char* advice) {
  return absl::FailedPreconditionError(
      fmt::format("its {} is {}, expected {}; {}", what, found, expected, advice));
}

absl::Status CheckProtocol(const v1::HandshakeReply& reply) {
  if (reply.protocol_version() == kProtocolVersion) return absl::OkStatus();
  return Mismatch("protocol version", reply.protocol_version(), kProtocolVersion,
                  "run the same release on both sides");
}

absl::Status CheckHandshake(const v1::HandshakeReply& reply, const LinkOptions& options) {
  constexpr char kAdvice[] = "it serves another checkpoint; give both the same --model";
  if (reply.model_fingerprint() != options.model_fingerprint) {
    return Mismatch("model fingerprint", fmt::format("{:016x}", reply.model_fingerprint()),
                    fmt::format("{:016x}", options.model_fingerprint), kAdvice);
  }
  if (reply.hidden_size() != options.hidden_size)
    return Mismatch("hidden size", reply.hidden_size(), options.hidden_size, kAdvice);
  if (reply.num_experts() != options.num_experts)
    return Mismatch("expert count", reply.num_experts(), options.num_experts, kAdvice);
  if (reply.worker_count() < 1 || reply.worker_count() > limits::kWorkersMax || reply.worker_index() < 0 ||
      reply.worker_index() >= reply.worker_count()) {
    return Mismatch("slice", fmt::format("{}/{}", reply.worker_index(), reply.worker_count()),
                    fmt::format("an index below the count, and at most {} workers", limits::kWorkersMax),
                    "correct its --worker-index and --worker-count");
  }
  if (reply.slice_mode() != v1::SLICE_MODE_INTERMEDIATE && reply.slice_mode() != v1::SLICE_MODE_EXPERT) {
    return Mismatch("slice mode", static_cast<int>(reply.slice_mode()), "1 (intermediate) or 2 (expert)",
                    "run the same release on both sides");
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address, const TlsIdentity* tls,
                                           int hidden_size) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(MessageBytesMax(ReplyBytes(limits::kCallTokensMax, hidden_size)));
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);  // the limit is for decompressed sizes
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                   1);  // a new connection must not inherit a dead connection's back-off
  return grpc::CreateCustomChannel(
      address, tls == nullptr ? grpc::InsecureChannelCredentials() : TlsChannelCredentials(*tls), arguments);
}

absl::Status StillLoads(const v1::Loading& loading) {
  constexpr double kGib = 1 << 30;
  absl::Status status = absl::UnavailableError(
      loading.bytes_total() == 0 ? "it prepares to load its weights"
                                 : fmt::format("it loads its weights: {:.1f} of {:.1f} GiB",
                                               static_cast<double>(loading.bytes_done()) / kGib,
                                               static_cast<double>(loading.bytes_total()) / kGib));
  status.SetPayload(kMovesOfLoad, absl::Cord(std::to_string(loading.moves())));
  return status;
}

// The owner of a socket file decides which process may listen there. The other end of a mailbox socket is
// checked separately (CheckPeerOf). A worker that is reached only through the stream must not belong to
// another user, unless the operator has asked for that (--data-path=grpc).
absl::Status CheckSocketOwner(const std::string& address, std::optional<gid_t> group) {
  struct stat file {};
  if (stat(address.c_str() + kUnixPrefix.size(), &file) != 0)
    return absl::UnavailableError(fmt::format("its socket file cannot be read: {}", std::strerror(errno)));
  if (file.st_uid == geteuid() || file.st_uid == 0 || (group && file.st_gid == *group))
    return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "its socket file belongs to user {}, expected user {} or root; give both --shared-memory-group, or, if "
      "it is the right worker, give this coordinator --data-path=grpc",
      file.st_uid, geteuid()));
}

// Explains a failed handshake: gRPC's message does not say why two processes refuse each other.
absl::Status ExplainFailure(const std::string& address, const TlsIdentity* tls, grpc::Channel& channel,
                            const grpc::Status& failure) {
  const bool connected = channel.GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  if (!IsUnix(address) && !connected && failure.error_code() == grpc::StatusCode::UNAVAILABLE)
    RETURN_IF_ERROR(ProbeTls(address, tls, std::chrono::milliseconds(kConnectTimeoutMs)));
  struct stat file {};
  if (IsUnix(address) && !connected && stat(address.c_str() + kUnixPrefix.size(), &file) != 0 &&
      errno == ENOENT)
    return absl::UnavailableError("nothing listens there: there is no socket file; is the worker started?");
  if (failure.error_message().find("Connection refused") != std::string::npos)
    return absl::UnavailableError("nothing listens there: the connection is refused; is the worker started?");
  return absl::UnavailableError(failure.error_message());  // WorkerTable adds the worker's address
}

}  // namespace

std::optional<uint64_t> MovesOfLoad(const absl::Status& error) {
  const auto digits = error.GetPayload(kMovesOfLoad);
  uint64_t moves = 0;
  if (!digits) return std::nullopt;
  NUMOE_CHECK(absl::SimpleAtoi(std::string(*digits), &moves)) << "StillLoads wrote it";
  return moves;
}

absl::StatusOr<std::unique_ptr<WorkerLink>> WorkerLink::Connect(const std::string& address,
                                                                const LinkOptions& options) {
  const bool secure = options.tls != nullptr && !IsUnix(address);
  const std::shared_ptr<const TlsIdentity> tls = secure ? options.tls->Current() : nullptr;
  const std::shared_ptr<grpc::Channel> channel = OpenChannel(address, tls.get(), options.hidden_size);
  const auto stub = v1::ExpertWorker::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(kConnectTimeoutMs));
  v1::HandshakeRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_coordinator(fmt::format("pid {}", getpid()));
  v1::HandshakeReply reply;
  const grpc::Status shaken = stub->Handshake(&context, request, &reply);
  if (!shaken.ok()) return ExplainFailure(address, tls.get(), *channel, shaken);
  RETURN_IF_ERROR(CheckProtocol(reply));
  if (reply.has_loading()) return StillLoads(reply.loading());
  RETURN_IF_ERROR(CheckHandshake(reply, options));
  WorkerIdentity identity{.slice_by_expert = reply.slice_mode() == v1::SLICE_MODE_EXPERT,
                          .worker_index = reply.worker_index(),
                          .worker_count = reply.worker_count(),
                          .instance = reply.instance(),
                          .description = reply.description().substr(0, limits::kPeerTextBytesMax),
                          .numeric_formats = reply.arithmetic().substr(0, limits::kPeerTextBytesMax),
                          .shared_memory = false};
  const bool same_host =
      !reply.mailbox_socket().empty() && !reply.host_id().empty() && reply.host_id() == HostId();
  if (options.data_path == DataPath::kSharedMemory && !same_host) {
    return absl::FailedPreconditionError(
        "it is on another host or offers no shared memory, which --data-path=shm requires; give this "
        "coordinator --data-path=auto, or start the worker on this host without --no-shared-memory");
  }
  if (options.data_path != DataPath::kGrpc && same_host) {
    identity.shared_memory = true;
    auto link = std::make_unique<MailboxLink>(identity, options, channel);
    const bool map = options.map_experts && reply.has_mapped_weights();
    const absl::Status attached =
        link->Attach(reply.mailbox_socket(), map ? &reply.mapped_weights() : nullptr);
    if (attached.ok()) return link;
    // A process whose memory is not trusted is not trusted with answers either.
    if (absl::IsPermissionDenied(attached)) {
      return absl::FailedPreconditionError(fmt::format(
          "{}; if it is the right worker, give this coordinator --data-path=grpc, which shares no memory",
          std::string(attached.message())));
    }
    if (options.data_path == DataPath::kSharedMemory) return attached;
    // Another network namespace hides abstract sockets, and a worker that we accept may refuse us: a worker
    // of root, or one without our --shared-memory-group. The stream works in these cases.
    LogWarning(
        "worker {}: layer calls go through gRPC, which is slower, because shared memory is not available: {}",
        address, std::string(attached.message()));
    identity.shared_memory = false;
  }
  if (IsUnix(address) && options.data_path != DataPath::kGrpc)
    RETURN_IF_ERROR(CheckSocketOwner(address, options.shared_memory_group));
  return std::make_unique<StreamLink>(identity, options, channel);
}

}  // namespace numoe::execution
