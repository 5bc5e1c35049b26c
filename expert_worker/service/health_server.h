// HealthServer: grpc.health.v1 in plain text on a port of its own, for kubelet's gRPC probes.
//
// It answers from the start of the process, long before the weights are loaded. Service "live" is SERVING as
// long as the process answers. "" (ready) and every other service that is Set are NOT_SERVING until they are
// set to ready. UNAVAILABLE names an address that it cannot listen on. Any thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class CallbackGenericService;
class Server;
}  // namespace grpc

namespace numoe::worker {

class HealthServer {
 public:
  /// `listen`: HOST:PORT; port 0 means any free port.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& address);
  ~HealthServer();

  /// `service`: "" is the whole process.
  void Set(const std::string& service, bool serving);
  int port() const { return port_; }

 private:
  HealthServer();

  std::unique_ptr<grpc::CallbackGenericService> nothing_else_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace numoe::worker
