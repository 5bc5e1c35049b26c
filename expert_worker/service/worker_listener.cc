#include "expert_worker/service/worker_listener.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <unistd.h>

#include <chrono>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/transport/tls_credentials.h"
#include "common/transport/transport_limits.h"
#include "expert_worker/service/listen_address.h"

namespace numoe::worker {
namespace {

// A coordinator whose host or network fails does not close its connection: without this its session would
// count forever.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
constexpr std::chrono::milliseconds kLastCalls(
    200);  // how long running calls may take when the listener ends

// Bounds what a client that reaches the address can make the worker hold: messages are at most as large as a
// call of this model, and the numbers of streams and threads are limited.
void Limit(grpc::ServerBuilder& builder, int message_bytes_max) {
  builder.SetMaxReceiveMessageSize(message_bytes_max);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION,
                             0);      // a small compressed message could exceed the limit when decompressed
  builder.SetMaxSendMessageSize(-1);  // our own messages
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits::kConnectionStreamsMax);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);  // its threads count, too
  grpc::ResourceQuota quota("expert-worker");
  quota.Resize(limits::kMessagesMax * static_cast<size_t>(message_bytes_max));
  builder.SetResourceQuota(quota.SetMaxThreads(limits::kServiceThreadsMax));
}

bool Secure(const std::string& listen, const TlsFiles& tls) {
  return tls.given() && UnixPath(listen).empty();
}

}  // namespace

bool AnybodyMayAsk(const std::string& listen, const TlsFiles& tls) {
  return UnixPath(listen).empty() && !Secure(listen, tls);
}

absl::StatusOr<std::unique_ptr<WorkerListener>> WorkerListener::Open(const ListenerOptions& options,
                                                                     grpc::Service& service) {
  NUMOE_CHECK_GT(options.message_bytes_max, 0);
  auto listener = std::unique_ptr<WorkerListener>(new WorkerListener());
  RETURN_IF_ERROR(listener->Listen(options, service));
  return listener;
}

absl::Status WorkerListener::Listen(const ListenerOptions& options, grpc::Service& service) {
  const std::string unix_path = UnixPath(options.listen);
  const bool is_unix = !unix_path.empty();
  std::optional<FolderTurn> turn;
  if (is_unix) {
    turn.emplace(unix_path);
    RETURN_IF_ERROR(ClearUnixPath(unix_path));
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen,
                           Secure(options.listen, options.tls) ? TlsServerCredentials(options.tls)
                                                               : grpc::InsecureServerCredentials(),
                           &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  if (!is_unix) {
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // any number of pings
  }
  Limit(builder, options.message_bytes_max);
  builder.RegisterService(&service);
  {
    std::optional<PrivateFiles> for_the_group;
    if (is_unix && options.group.has_value()) for_the_group.emplace();
    server_ = builder.BuildAndStart();
  }
  if (server_ == nullptr || port == 0) {
    return absl::UnavailableError(fmt::format(
        "--listen={}: cannot listen there; is the address in use, or does it belong to another host?",
        options.listen));
  }
  unix_path_ = unix_path;
  if (is_unix && options.group.has_value()) RETURN_IF_ERROR(ShareSocket(unix_path, *options.group));
  address_ = is_unix ? options.listen
                     : options.listen.substr(0, options.listen.rfind(':') + 1) + std::to_string(port);
  return absl::OkStatus();
}

WorkerListener::~WorkerListener() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kLastCalls);
  if (!unix_path_.empty()) unlink(unix_path_.c_str());
}

void WorkerListener::SetServing(bool serving) {
  NUMOE_CHECK(server_ != nullptr);
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

}  // namespace numoe::worker
