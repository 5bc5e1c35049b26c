// HealthProbe: asks a daemon's grpc.health.v1 whether it serves.
//
// For a supervisor that asks its workers again and again, and for `--probe`, which containers without gRPC
// probes run. One connection, kept; a daemon that is not there yet is asked anew within half a second. One
// thread at a time.
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
  /// OK: `service` ("": the whole process) is SERVING. UNAVAILABLE: it is not, or does not answer in time.
  absl::Status Ask(const std::string& service, std::chrono::milliseconds patience) const;

 private:
  const std::string address_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace numoe::worker
