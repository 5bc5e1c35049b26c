// HealthProbe: asks a daemon's grpc.health.v1 whether it serves.
//
// It is for a supervisor that asks its workers again and again, and for `--probe` in containers, where the
// orchestrator has no gRPC probes. It keeps one connection; if the daemon does not listen yet, it connects
// again within half a second. One thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace grpc {
class Channel;
}

namespace numoe::worker {

class HealthProbe {
 public:
  /// HOST:PORT or unix:PATH.
  explicit HealthProbe(const std::string& address);
  /// Returns OK if `service` ("" is the whole process) is SERVING; UNAVAILABLE if it is not, or does not
  /// answer in time.
  absl::Status Ask(const std::string& service, std::chrono::milliseconds patience) const;

 private:
  const std::string address_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace numoe::worker
