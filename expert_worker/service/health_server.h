// HealthServer: grpc.health.v1 in plain text on a port of its own, for kubelet's gRPC probes.
//
// Serves from the start of the process, long before there is a worker: service "live" is SERVING as long as
// the process answers, "" (ready) and whatever else is Set say NOT_SERVING until they are told otherwise.
// UNAVAILABLE names an address that it cannot listen on. Any thread.
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
  /// HOST:PORT; port 0: any free one.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& address);
  ~HealthServer();

  /// "": whether the whole process is ready.
  void Set(const std::string& service, bool serving);
  int port() const { return port_; }

 private:
  HealthServer();

  std::unique_ptr<grpc::CallbackGenericService> nothing_else_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace numoe::worker
