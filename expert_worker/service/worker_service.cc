#include "expert_worker/service/worker_service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
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
#include "common/transport/transport_limits.h"
#include "expert_worker/experts/experts_limits.h"
#include "expert_worker/service/layer_message.h"
#include "expert_worker/service/worker_listener.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe::worker {
namespace {

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

// Returns the name that a coordinator gives itself, for the log, with a limited length.
std::string PrintableName(std::string_view name) {
  std::string text(name.substr(0, limits::kCoordinatorNameBytesMax));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

// Limits log lines: at most one for a name in an interval, however often it asks.
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

// Counts a stream as long as the object exists.
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

// Questions are answered through callbacks, so a client that does not read the answer holds its bytes but no
// thread. Only streams of layer calls have threads of their own.
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
  Service(SharedExecutor& executor, const WorkerServiceOptions& options, MailboxServer* mailbox,
          WorkerListener& listener)
      : executor_(executor),
        options_(options),
        mailbox_(mailbox),
        listener_(listener),
        anybody_(AnybodyMayAsk(options.listen, options.tls)) {}

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
    reply->set_arithmetic(options_.numeric_formats);
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
      // An error here ends the session, because the peer does not follow the protocol. Errors of the executor
      // are sent in the reply.
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
                        "a worker is not drained over TCP without TLS, where anyone could ask for it; send "
                        "its process SIGTERM, or start it with --ssl-certfile, --ssl-keyfile and "
                        "--ssl-ca-certs"));
    }
    BeginDrain();
    return Finish(context, absl::OkStatus());
  }

  void BeginDrain() {
    draining_.store(true);
    listener_.SetServing(false);
  }
  int sessions() const { return streams_.load() + (mailbox_ == nullptr ? 0 : mailbox_->sessions()); }

 private:
  struct Answering {  // for one stream
    std::vector<float> partial;
    v1::LayerReply reply;
  };
  const v1::LayerReply& Answer(uint64_t call_id, const LayerCallView& view, ReplyPart part,
                               Answering& answering) {
    auto& [partial, reply] = answering;
    partial.resize(view.hidden.size());
    // It runs on any CPU of the node, like every thread of this process: gRPC uses another thread for each
    // call, and binding it would cost more than it saves.
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
  WorkerListener& listener_;
  const bool anybody_;
  HandshakeLines handshake_lines_;
  std::atomic<bool> draining_{false};
  std::atomic<int> streams_{0};
};

// Answers from the moment the process starts. Loading the weights takes minutes: until they are loaded, a
// handshake is answered with the progress, so that a coordinator knows that the worker is alive and loading,
// and all other calls are UNAVAILABLE. After Serve, all calls go to the service.
class Front final : public Questions {
 public:
  using Stream = grpc::ServerReaderWriter<v1::LayerReply, v1::LayerCall>;

  explicit Front(std::function<v1::Loading()> loading) : loading_(std::move(loading)) {}
  void Serve(Questions& service) {
    Questions* const before = service_.exchange(&service);
    NUMOE_CHECK(before == nullptr && &service != this) << "a worker serves one slice";
  }

  grpc::ServerUnaryReactor* Handshake(grpc::CallbackServerContext* context,
                                      const v1::HandshakeRequest* request,
                                      v1::HandshakeReply* reply) override {
    if (Questions* const service = service_.load()) return service->Handshake(context, request, reply);
    reply->set_protocol_version(kProtocolVersion);
    *reply->mutable_loading() = loading_();
    return Finish(context, absl::OkStatus());
  }
  grpc::ServerUnaryReactor* GetStats(grpc::CallbackServerContext* context, const v1::StatsRequest* request,
                                     v1::StatsReply* reply) override {
    Questions* const service = service_.load();
    return service == nullptr ? Finish(context, StillLoading()) : service->GetStats(context, request, reply);
  }
  grpc::ServerUnaryReactor* GetExpertStats(grpc::CallbackServerContext* context,
                                           const v1::ExpertStatsRequest* request,
                                           v1::ExpertStatsReply* reply) override {
    Questions* const service = service_.load();
    return service == nullptr ? Finish(context, StillLoading())
                              : service->GetExpertStats(context, request, reply);
  }
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const v1::DrainRequest* request,
                                  v1::DrainReply* reply) override {
    Questions* const service = service_.load();
    return service == nullptr ? Finish(context, StillLoading()) : service->Drain(context, request, reply);
  }
  grpc::Status LayerCalls(grpc::ServerContext* context, Stream* stream) override {
    Questions* const service = service_.load();
    return service == nullptr ? ToGrpc(StillLoading()) : service->LayerCalls(context, stream);
  }

 private:
  static absl::Status StillLoading() {
    return absl::UnavailableError("the worker loads its weights; a handshake says how much is loaded");
  }

  const std::function<v1::Loading()> loading_;
  std::atomic<Questions*> service_{nullptr};
};

v1::Loading Say(const LoadProgress& progress) {
  v1::Loading loading;
  loading.set_moves(progress.moves());
  loading.set_bytes_done(progress.bytes_done());
  loading.set_bytes_total(progress.bytes_total());
  return loading;
}

class GrpcWorkerService final : public WorkerService {
 public:
  // `progress`: of the load, until Serve is called.
  explicit GrpcWorkerService(const LoadProgress* progress)
      : front_([progress] { return progress == nullptr ? v1::Loading() : Say(*progress); }) {}

  ~GrpcWorkerService() override {
    listener_.reset();  // ends the calls that use the other members
    mailbox_.reset();
  }

  absl::Status Listen(const WorkerServiceOptions& options) {
    NUMOE_CHECK_GT(options.hidden_size, 0);
    const size_t largest =
        RequestBytes(limits::kCallTokensMax, limits::kExpertsPerTokenMax, options.hidden_size);
    ASSIGN_OR_RETURN(listener_, WorkerListener::Open({.listen = options.listen,
                                                      .group = options.shared_memory_group,
                                                      .tls = options.tls,
                                                      .message_bytes_max = MessageBytesMax(largest)},
                                                     front_));
    listener_->SetServing(false);
    return absl::OkStatus();
  }

  absl::Status Serve(LayerExecutor& executor, const WorkerServiceOptions& options) override {
    NUMOE_CHECK(0 <= options.worker_index && options.worker_index < options.worker_count);
    NUMOE_CHECK(options.hidden_size > 0 && options.num_experts > 0);
    NUMOE_CHECK(service_ == nullptr) << "a worker serves one slice";
    options_ = options;
    executor_.emplace(executor, RandomId());
    if (options_.shared_memory) {
      ASSIGN_OR_RETURN(
          mailbox_, MailboxServer::Start(*executor_, {.shape = {options_.hidden_size, options_.num_experts},
                                                      .experts_per_token = options_.experts_per_token,
                                                      .experts_fd = options_.experts_fd,
                                                      .group = options_.shared_memory_group,
                                                      .callers = options_.callers,
                                                      .nodes = options_.nodes}));
    }
    service_ = std::make_unique<Service>(*executor_, options_, mailbox_.get(), *listener_);
    listener_->SetServing(true);
    front_.Serve(*service_);
    return absl::OkStatus();
  }

  const std::string& address() const override { return listener_->address(); }
  WorkerServiceStats Stats() const override {
    if (service_ == nullptr) return {};
    return {.calls = executor_->calls(),
            .rows = executor_->rows(),
            .sessions = service_->sessions(),
            .mailboxes_local = mailbox_ == nullptr ? std::nullopt : mailbox_->mailboxes_local()};
  }
  void Drain() override {
    NUMOE_CHECK(service_ != nullptr) << "Serve must be called first";
    service_->BeginDrain();
  }

 private:
  WorkerServiceOptions options_;
  Front front_;
  std::optional<SharedExecutor> executor_;
  std::unique_ptr<MailboxServer> mailbox_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<WorkerListener> listener_;
};

absl::StatusOr<std::unique_ptr<GrpcWorkerService>> Open(const WorkerServiceOptions& options,
                                                        const LoadProgress* progress) {
  auto service = std::make_unique<GrpcWorkerService>(progress);
  RETURN_IF_ERROR(service->Listen(options));
  return service;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerService>> WorkerService::StartLoading(
    const WorkerServiceOptions& options, const LoadProgress& progress) {
  return Open(options, &progress);
}

absl::StatusOr<std::unique_ptr<WorkerService>> WorkerService::Start(LayerExecutor& executor,
                                                                    const WorkerServiceOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerService> service, Open(options, nullptr));
  RETURN_IF_ERROR(service->Serve(executor, options));
  return service;
}

}  // namespace numoe::worker
