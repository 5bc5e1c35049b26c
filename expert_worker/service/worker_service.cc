#include "expert_worker/service/worker_service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/transport/grpc_status.h"
#include "common/transport/host_id.h"
#include "common/transport/tls_credentials.h"
#include "expert_worker/experts/experts_limits.h"
#include "expert_worker/service/layer_message.h"
#include "expert_worker/service/listen_address.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe {
namespace {

// Largest LayerCall or LayerReply: the limit on tokens times the widest supported hidden size would be 2 GB;
// gRPC's own framing limits it to INT_MAX.
constexpr int kMessageBytesMax = INT32_MAX;

// A coordinator whose host or network is gone says no goodbye: its session would be counted for ever.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 10'000;

void Write(const SharedExperts& experts, v1::SharedExperts& out) {
  out.set_bytes(experts.bytes);
  out.set_width(experts.width);
  out.set_first(experts.first);
  for (const SharedLayer& layer : experts.layers) {
    v1::SharedLayer& entry = *out.add_layers();
    entry.set_layer(layer.layer);
    entry.set_offset(layer.offset);
    entry.set_expert_bytes(layer.expert_bytes);
    entry.set_up_format(layer.up_format);
    entry.set_down_format(layer.down_format);
  }
}

class Service final : public v1::ExpertWorker::Service {
 public:
  Service(SharedExecutor& executor, const WorkerServiceOptions& options, const RingServer* ring)
      : executor_(executor), options_(options), ring_(ring) {}

  grpc::Status Handshake(grpc::ServerContext*, const v1::HandshakeRequest* request,
                         v1::HandshakeReply* reply) override {
    LogInfo("handshake from coordinator '{}' (protocol {})", request->coordinator(),
            request->protocol_version());
    if (draining_.load()) return ToGrpc(absl::UnavailableError("the worker is draining"));
    reply->set_protocol_version(kProtocolVersion);
    reply->set_model_fingerprint(options_.model_fingerprint);
    reply->set_slice_mode(options_.slice_by_expert ? v1::SLICE_MODE_EXPERT : v1::SLICE_MODE_INTERMEDIATE);
    reply->set_worker_index(options_.worker_index);
    reply->set_worker_count(options_.worker_count);
    reply->set_hidden_size(options_.hidden_size);
    reply->set_num_experts(options_.num_experts);
    reply->set_experts_per_token(options_.experts_per_token);
    reply->set_description(options_.description);
    reply->set_host_id(HostId());
    if (ring_ != nullptr) {
      reply->set_ring_socket(ring_->socket_name());
      if (options_.experts_fd >= 0) Write(options_.shared_experts, *reply->mutable_shared_experts());
    }
    return grpc::Status::OK;
  }

  grpc::Status LayerCalls(grpc::ServerContext*,
                          grpc::ServerReaderWriter<v1::LayerReply, v1::LayerCall>* stream) override {
    streams_.fetch_add(1);
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
    streams_.fetch_sub(1);
    return ToGrpc(status);
  }

  grpc::Status GetStats(grpc::ServerContext*, const v1::StatsRequest*, v1::StatsReply* reply) override {
    reply->set_calls(executor_.calls());
    reply->set_rows(executor_.rows());
    reply->set_sessions(sessions());
    return grpc::Status::OK;
  }

  grpc::Status GetExpertStats(grpc::ServerContext*, const v1::ExpertStatsRequest*,
                              v1::ExpertStatsReply* reply) override {
    if (options_.statistics == nullptr)
      return ToGrpc(absl::UnimplementedError("this worker's executor keeps no statistics of experts"));
    const ExpertSnapshot experts = options_.statistics->Experts();
    reply->set_layers(experts.layers);
    reply->set_experts(experts.experts);
    reply->mutable_rows()->Add(experts.rows.begin(), experts.rows.end());
    reply->mutable_calls()->Add(experts.calls.begin(), experts.calls.end());
    reply->mutable_decayed_rows()->Add(experts.decayed.begin(), experts.decayed.end());
    reply->set_half_life_seconds(limits::kExpertHalfLifeSeconds);
    return grpc::Status::OK;
  }

  grpc::Status Drain(grpc::ServerContext*, const v1::DrainRequest*, v1::DrainReply*) override {
    BeginDrain();
    return grpc::Status::OK;
  }

  void BeginDrain() {
    draining_.store(true);
    if (server_ != nullptr) server_->GetHealthCheckService()->SetServingStatus(false);
  }
  void set_server(grpc::Server* server) { server_ = server; }
  int sessions() const { return streams_.load() + (ring_ == nullptr ? 0 : ring_->sessions()); }

 private:
  struct Answering {  // of one stream
    std::vector<float> partial;
    v1::LayerReply reply;
  };
  const v1::LayerReply& Answer(uint64_t call_id, const LayerCallView& view, ReplyPart part,
                               Answering& answering) {
    auto& [partial, reply] = answering;
    partial.resize(view.hidden.size());
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
  const RingServer* ring_;
  grpc::Server* server_ = nullptr;
  std::atomic<bool> draining_{false};
  std::atomic<int> streams_{0};
};

class GrpcWorkerService final : public WorkerService {
 public:
  GrpcWorkerService(LayerExecutor& executor, const WorkerServiceOptions& options)
      : options_(options), executor_(executor) {}

  ~GrpcWorkerService() override {
    if (server_ != nullptr)
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    ring_.reset();
    if (!unix_path_.empty()) unlink(unix_path_.c_str());
  }

  absl::Status Listen() {
    if (options_.shared_memory) {
      ASSIGN_OR_RETURN(ring_,
                       RingServer::Start(executor_, {.shape = {options_.hidden_size, options_.num_experts},
                                                     .experts_per_token = options_.experts_per_token,
                                                     .experts_fd = options_.experts_fd}));
    }
    service_ = std::make_unique<Service>(executor_, options_, ring_.get());
    const std::string unix_path = UnixPath(options_.listen);
    const bool is_unix = !unix_path.empty();
    if (is_unix) RETURN_IF_ERROR(ClearUnixPath(unix_path));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    int port = 0;
    const bool secure = options_.tls.given() && !is_unix;
    builder.AddListeningPort(options_.listen,
                             secure ? TlsServerCredentials(options_.tls) : grpc::InsecureServerCredentials(),
                             &port);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    if (!is_unix) {
      builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
      builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
      builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // any number
    }
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    builder.SetMaxSendMessageSize(kMessageBytesMax);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(fmt::format(
          "--listen={}: cannot listen there; is the address in use or not this host's?", options_.listen));
    }
    unix_path_ = unix_path;
    address_ = is_unix ? options_.listen
                       : options_.listen.substr(0, options_.listen.rfind(':') + 1) + std::to_string(port);
    service_->set_server(server_.get());
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  WorkerServiceStats Stats() const override {
    return {executor_.calls(), executor_.rows(), service_->sessions()};
  }
  void Drain() override { service_->BeginDrain(); }

 private:
  const WorkerServiceOptions options_;
  SharedExecutor executor_;
  std::unique_ptr<RingServer> ring_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::string unix_path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerService>> WorkerService::Start(LayerExecutor& executor,
                                                                    const WorkerServiceOptions& options) {
  auto service = std::make_unique<GrpcWorkerService>(executor, options);
  RETURN_IF_ERROR(service->Listen());
  return service;
}

}  // namespace numoe
