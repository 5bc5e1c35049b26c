#include "expert_worker/startup/worker_endpoints.h"

#include <chrono>

#include "common/base/check.h"
#include "common/base/status.h"
#include "expert_worker/service/health_probe.h"
#include "expert_worker/service/listen_address.h"

namespace numoe::worker {

absl::StatusOr<std::shared_ptr<TlsIdentityWatch>> OpenTls(const WorkerOptions& options) {
  if (!options.tls.given()) return nullptr;
  NUMOE_CHECK(CheckAllOrNone(options.tls).ok()) << "ReadWorkerOptions takes all three or none";
  return TlsIdentityWatch::Open(options.tls, TlsRole::kServer);
}

absl::StatusOr<std::unique_ptr<HealthServer>> StartHealth(const WorkerOptions& options) {
  if (!options.health_listen) return nullptr;
  const std::string& address = *options.health_listen;
  // Check the address here, because gRPC would log what is wrong with it in a line of its own.
  if (address.rfind(kAbstractPrefix, 0) != 0)
    RETURN_IF_ERROR(CheckPortAddress("--health-listen", address, "none"));
  return HealthServer::Start(address);
}

absl::Status AskHealth(const std::string& address) {
  constexpr std::chrono::milliseconds kPatience{3'000};
  return HealthProbe(address).Ask("", kPatience);
}

}  // namespace numoe::worker
