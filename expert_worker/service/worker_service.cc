#include "expert_worker/service/worker_service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <string_view>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/random_id.h"
#include "common/base/status.h"
#include "common/transport/grpc_status.h"
#include "common/transport/host_id.h"
#include "common/transport/tls_credentials.h"
#include "common/transport/transport_limits.h"
#include "expert_worker/experts/experts_limits.h"
#include "expert_worker/service/layer_message.h"
#include "expert_worker/service/listen_address.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe::worker {
namespace {

// A coordinator whose host or network is gone says no goodbye: its session would be counted for ever.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 10'000;

void Write(const MappedWeights& experts, v1::MappedWeights& out) {
  out.set_bytes(experts.bytes);
  out.set_width(experts.width);
  out.set_first(experts.first);
  for (const MappedLayer& layer : experts.layers) {
    v1::MappedLayer& entry = *out.add_layers();
    entry.set_layer(layer.layer);
    entry.set_offset(layer.offset);
    entry.set_expert_bytes(layer.expert_bytes);
    entry.set_up_format(layer.up_format);
    entry.set_down_format(layer.down_format);
  }
}

// What a coordinator calls itself, for the log: its words, but not as many as it likes.
std::string PrintableName(std::string_view name) {
  std::string text(name.substr(0, limits::kCoordinatorNameBytesMax));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

// Of the log: at most one for a name in some time, whoever asks how often.
class HandshakeLines {
 public:
  bool MayWrite(const std::string& name) {
    constexpr std::chrono::seconds kEvery{10};
    const auto now = std::chrono::steady_clock::now();
    const MutexLock lock(mutex_);
    std::erase_if(written_, [&](const auto& line) { return now - line.second >= kEvery; });
    return written_.size() < kNamesMax && written_.emplace(name, now).second;
  }

 private:
  static constexpr size_t kNamesMax = 64;
  Mutex mutex_;
  std::map<std::string, std::chrono::steady_clock::time_point> written_ ABSL_GUARDED_BY(mutex_);
};

// Counts a stream for as long as it lives.
class StreamCount {
 public:
  explicit StreamCount(std::atomic<int>& streams) : streams_(streams), number_(streams.fetch_add(1) + 1) {}
  StreamCount(const StreamCount&) = delete;
  StreamCount& operator=(const StreamCount&) = delete;
  ~StreamCount() {
    const int before = streams_.fetch_sub(1);
    NUMOE_CHECK_GT(before, 0);
  }
  int number() const { return number_; }

 private:
  std::atomic<int>& streams_;
  const int number_;
};

// Questions are answered through callbacks: whoever does not take the answer holds its bytes and no thread.
// Only streams of layer calls have threads of their own.
using Questions = v1::ExpertWorker::WithCallbackMethod_Handshake<
    v1::ExpertWorker::WithCallbackMethod_GetStats<v1::ExpertWorker::WithCallbackMethod_GetExpertStats<
        v1::ExpertWorker::WithCallbackMethod_Drain<v1::ExpertWorker::Service>>>>;

grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

class Service final : public Questions {
 public:
  // `anybody`: who asks has neither shown a certificate nor opened a socket's file.
  Service(SharedExecutor& executor, const WorkerServiceOptions& options, MailboxServer* mailbox, bool anybody)
      : executor_(executor), options_(options), mailbox_(mailbox), anybody_(anybody) {}

  grpc::ServerUnaryReactor* Handshake(grpc::CallbackServerContext* context,
                                      const v1::HandshakeRequest* request,
                                      v1::HandshakeReply* reply) override {
    if (const std::string name = PrintableName(request->coordinator()); handshake_lines_.MayWrite(name))
      LogInfo("handshake from coordinator '{}' (protocol {})", name, request->protocol_version());
    if (draining_.load()) return Finish(context, absl::UnavailableError("the worker is draining"));
    reply->set_protocol_version(kProtocolVersion);
    reply->set_model_fingerprint(options_.model_fingerprint);
    reply->set_slice_mode(options_.slice_by_expert ? v1::SLICE_MODE_EXPERT : v1::SLICE_MODE_INTERMEDIATE);
    reply->set_worker_index(options_.worker_index);
    reply->set_worker_count(options_.worker_count);
    reply->set_hidden_size(options_.hidden_size);
    reply->set_num_experts(options_.num_experts);
    reply->set_experts_per_token(options_.experts_per_token);
    reply->set_description(options_.description);
    reply->set_arithmetic(options_.arithmetic);
    reply->set_host_id(HostId());
    reply->set_instance(executor_.instance());
    if (mailbox_ != nullptr) {
      reply->set_mailbox_socket(mailbox_->socket_name());
      if (options_.experts_fd >= 0) Write(options_.mapped_weights, *reply->mutable_mapped_weights());
    }
    return Finish(context, absl::OkStatus());
  }

  grpc::Status LayerCalls(grpc::ServerContext*,
                          grpc::ServerReaderWriter<v1::LayerReply, v1::LayerCall>* stream) override {
    const StreamCount count(streams_);
    if (count.number() > limits::kStreamsMax) {
      return ToGrpc(absl::ResourceExhaustedError(fmt::format(
          "this is stream {} of layer calls to this worker, expected at most {}; end some coordinators",
          count.number(), limits::kStreamsMax)));
    }
    v1::LayerCall call;
    LayerMessageBuffers buffers;
    SplitCall split;
    Answering answering;
    absl::Status status;
    for (bool open = true; open && status.ok() && stream->Read(&call);) {
      // An error here ends the session: the peer does not speak the protocol. The executor's own errors
      // travel in the reply.
      const absl::StatusOr<LayerCallView> view = ReadLayerMessage(call, options_.hidden_size, buffers);
      status = view.status();
      if (!view.ok()) break;
      split.Split(*view);
      for (const ReplyPart part : {ReplyPart::kImmediate, ReplyPart::kDeferred}) {
        if (part == ReplyPart::kDeferred && view->deferred_experts == 0) continue;
        open = open && stream->Write(Answer(call.call_id(), split.part(part), part, answering));
      }
    }
    return ToGrpc(status);
  }

  grpc::ServerUnaryReactor* GetStats(grpc::CallbackServerContext* context, const v1::StatsRequest* request,
                                     v1::StatsReply* reply) override {
    if (mailbox_ != nullptr) mailbox_->NoteSign(request->mailbox_session());
    reply->set_calls(executor_.calls());
    reply->set_rows(executor_.rows());
    reply->set_sessions(sessions());
    return Finish(context, absl::OkStatus());
  }

  grpc::ServerUnaryReactor* GetExpertStats(grpc::CallbackServerContext* context,
                                           const v1::ExpertStatsRequest*,
                                           v1::ExpertStatsReply* reply) override {
    if (options_.statistics == nullptr)
      return Finish(context,
                    absl::UnimplementedError("this worker's executor keeps no statistics of experts"));
    const ExpertSnapshot experts = options_.statistics->Experts();
    NUMOE_CHECK_EQ(experts.rows.size(), experts.calls.size());
    reply->set_layers(experts.layers);
    reply->set_experts(experts.experts);
    reply->mutable_rows()->Add(experts.rows.begin(), experts.rows.end());
    reply->mutable_calls()->Add(experts.calls.begin(), experts.calls.end());
    reply->mutable_decayed_rows()->Add(experts.decayed.begin(), experts.decayed.end());
    reply->set_half_life_seconds(limits::kExpertHalfLifeSeconds);
    return Finish(context, absl::OkStatus());
  }

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const v1::DrainRequest*,
                                  v1::DrainReply*) override {
    if (anybody_) {
      return Finish(context,
                    absl::PermissionDeniedError(
                        "a worker is not drained over TCP without TLS, where anybody could ask for it; send "
                        "its process "
                        "SIGTERM, or start it with --ssl-certfile, --ssl-keyfile and --ssl-ca-certs"));
    }
    BeginDrain();
    return Finish(context, absl::OkStatus());
  }

  void BeginDrain() {
    draining_.store(true);
    if (server_ != nullptr) server_->GetHealthCheckService()->SetServingStatus(false);
  }
  void set_server(grpc::Server* server) { server_ = server; }
  int sessions() const { return streams_.load() + (mailbox_ == nullptr ? 0 : mailbox_->sessions()); }

 private:
  struct Answering {  // of one stream
    std::vector<float> partial;
    v1::LayerReply reply;
  };
  const v1::LayerReply& Answer(uint64_t call_id, const LayerCallView& view, ReplyPart part,
                               Answering& answering) {
    auto& [partial, reply] = answering;
    partial.resize(view.hidden.size());
    // On any of the node's CPUs, as every thread of this process: gRPC takes another one for each call, and
    // binding it would cost more than it brings.
    const absl::Status done = executor_.Execute(view, absl::MakeSpan(partial));
    reply.set_call_id(call_id);
    reply.set_deferred(part == ReplyPart::kDeferred);
    reply.set_status_code(static_cast<int>(done.code()));
    reply.set_status_message(std::string(done.message()));
    reply.set_partial(partial.data(), done.ok() ? partial.size() * sizeof(float) : 0);
    return reply;
  }

  SharedExecutor& executor_;
  const WorkerServiceOptions& options_;
  MailboxServer* mailbox_;
  const bool anybody_;
  HandshakeLines handshake_lines_;
  grpc::Server* server_ = nullptr;
  std::atomic<bool> draining_{false};
  std::atomic<int> streams_{0};
};

class GrpcWorkerService final : public WorkerService {
 public:
  GrpcWorkerService(LayerExecutor& executor, const WorkerServiceOptions& options)
      : options_(options), executor_(executor, RandomId()) {}

  ~GrpcWorkerService() override {
    if (server_ != nullptr)
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    mailbox_.reset();
    if (!unix_path_.empty()) unlink(unix_path_.c_str());
  }

  absl::Status Listen() {
    if (options_.shared_memory) {
      ASSIGN_OR_RETURN(mailbox_,
                       MailboxServer::Start(executor_, {.shape = {options_.hidden_size, options_.num_experts},
                                                        .experts_per_token = options_.experts_per_token,
                                                        .experts_fd = options_.experts_fd,
                                                        .group = options_.shared_memory_group,
                                                        .callers = options_.callers,
                                                        .nodes = options_.nodes}));
    }
    const std::string unix_path = UnixPath(options_.listen);
    const bool is_unix = !unix_path.empty();
    if (is_unix) RETURN_IF_ERROR(ClearUnixPath(unix_path));
    const bool secure = options_.tls.given() && !is_unix;
    service_ =
        std::make_unique<Service>(executor_, options_, mailbox_.get(), /*anybody=*/!secure && !is_unix);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(options_.listen,
                             secure ? TlsServerCredentials(options_.tls) : grpc::InsecureServerCredentials(),
                             &port);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    if (!is_unix) {
      builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
      builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
      builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // any number
    }
    Limit(builder);
    builder.RegisterService(service_.get());
    {
      std::optional<PrivateFiles> for_the_group;
      if (is_unix && options_.shared_memory_group.has_value()) for_the_group.emplace();
      server_ = builder.BuildAndStart();
    }
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(fmt::format(
          "--listen={}: cannot listen there; is the address in use or not this host's?", options_.listen));
    }
    unix_path_ = unix_path;
    if (is_unix && options_.shared_memory_group.has_value())
      RETURN_IF_ERROR(ShareSocket(unix_path, *options_.shared_memory_group));
    address_ = is_unix ? options_.listen
                       : options_.listen.substr(0, options_.listen.rfind(':') + 1) + std::to_string(port);
    service_->set_server(server_.get());
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  WorkerServiceStats Stats() const override {
    return {.calls = executor_.calls(),
            .rows = executor_.rows(),
            .sessions = service_->sessions(),
            .mailboxes_local = mailbox_ == nullptr ? std::nullopt : mailbox_->mailboxes_local()};
  }
  void Drain() override { service_->BeginDrain(); }

 private:
  // Bounds what anybody who reaches the address can make the worker hold: messages no larger than one call of
  // this model, and limited numbers of streams and threads.
  void Limit(grpc::ServerBuilder& builder) const {
    const int message_bytes = MessageBytesMax(
        RequestBytes(limits::kCallTokensMax, limits::kExpertsPerTokenMax, options_.hidden_size));
    builder.SetMaxReceiveMessageSize(message_bytes);
    builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION,
                               0);      // a small compressed message could exceed the limit when inflated
    builder.SetMaxSendMessageSize(-1);  // our own
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits::kConnectionStreamsMax);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);  // its threads count, too
    grpc::ResourceQuota quota("expert-worker");
    quota.Resize(limits::kMessagesMax * static_cast<size_t>(message_bytes));
    builder.SetResourceQuota(quota.SetMaxThreads(limits::kServiceThreadsMax));
  }

  const WorkerServiceOptions options_;
  SharedExecutor executor_;
  std::unique_ptr<MailboxServer> mailbox_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::string unix_path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerService>> WorkerService::Start(LayerExecutor& executor,
                                                                    const WorkerServiceOptions& options) {
  NUMOE_CHECK(0 <= options.worker_index && options.worker_index < options.worker_count);
  NUMOE_CHECK(options.hidden_size > 0 && options.num_experts > 0);
  auto service = std::make_unique<GrpcWorkerService>(executor, options);
  RETURN_IF_ERROR(service->Listen());
  return service;
}

}  // namespace numoe::worker
