// What a worker and a supervisor open beside the layer calls: the identity for TLS, and the health port.
//
// Both are null where the flags ask for none. INVALID_ARGUMENT and UNAVAILABLE name the flag, what was found
// and what to do. Main thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/tls_identity.h"
#include "expert_worker/service/health_server.h"
#include "expert_worker/startup/worker_options.h"

namespace numoe::worker {

/// Sockets in no file, which end with their process: where a supervisor asks workers that speak TLS.
inline constexpr std::string_view kAbstractPrefix = "unix-abstract:";

absl::StatusOr<std::shared_ptr<TlsIdentityWatch>> OpenTls(const WorkerOptions& options);
absl::StatusOr<std::unique_ptr<HealthServer>> StartHealth(const WorkerOptions& options);
/// --probe: OK where `address` says within a few seconds that it serves.
absl::Status AskHealth(const std::string& address);

}  // namespace numoe::worker
