// What workers and supervisors open in addition to the address for layer calls: the TLS identity and the
// health port.
//
// Each is null if the flags do not ask for it. INVALID_ARGUMENT and UNAVAILABLE name the flag, what was found
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

/// Begins the address of a socket without a file, which ends with its process. A supervisor asks workers that
/// use TLS for their health at such addresses.
inline constexpr std::string_view kAbstractPrefix = "unix-abstract:";

absl::StatusOr<std::shared_ptr<TlsIdentityWatch>> OpenTls(const WorkerOptions& options);
absl::StatusOr<std::unique_ptr<HealthServer>> StartHealth(const WorkerOptions& options);
/// Serves --probe: returns OK if the process at `address` says within 3 seconds that it serves.
absl::Status AskHealth(const std::string& address);

}  // namespace numoe::worker
