#include "expert_worker/service/health_server.h"

#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <chrono>

#include "common/base/check.h"

namespace numoe::worker {
namespace {

constexpr int kQuestionBytesMax = 4'096;
constexpr size_t kMemoryBytesMax = 16 << 20;  // for all connections together

}  // namespace

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address) {
  std::unique_ptr<HealthServer> health(new HealthServer());
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &health->port_);
  // gRPC does not start a server without a service; this one answers that no call is implemented.
  builder.RegisterCallbackGenericService(health->nothing_else_.get());
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Anyone may ask, and a question has only a few bytes.
  builder.SetMaxReceiveMessageSize(kQuestionBytesMax);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  grpc::ResourceQuota quota("health");
  builder.SetResourceQuota(quota.Resize(kMemoryBytesMax));
  health->server_ = builder.BuildAndStart();
  if (health->server_ == nullptr || health->port_ == 0) {
    return absl::UnavailableError(fmt::format(
        "--health-listen={}: cannot listen there; expected HOST:PORT of this host that no other process "
        "has, or none",
        address));
  }
  health->Set("", false);
  health->Set("live", true);
  return health;
}

HealthServer::HealthServer() : nothing_else_(std::make_unique<grpc::CallbackGenericService>()) {}

HealthServer::~HealthServer() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

void HealthServer::Set(const std::string& service, bool serving) {
  NUMOE_CHECK(server_ != nullptr && server_->GetHealthCheckService() != nullptr);
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
}

}  // namespace numoe::worker
