// WorkerListener: the gRPC server at a worker's address.
//
// Serves the given service and grpc.health.v1 on one address (unix:PATH or HOST:PORT). A stale socket file of
// a dead process is replaced; if a live process serves it, the error names it. With a shared-memory group,
// processes of this group may connect to the socket's file, too, and other users may not at any moment. A
// client can cost at most what common/transport/transport_limits.h allows: streams, threads, bytes of a
// message. The destructor ends all calls and removes the socket file. Main thread; any thread may call
// SetServing.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/transport/tls_identity.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace numoe::worker {

struct ListenerOptions {
  std::string listen;          // unix:PATH or HOST:PORT
  std::optional<gid_t> group;  // its processes may connect to a socket file, in addition to our user's
  TlsFiles tls;                // for HOST:PORT; without files it is plain text
  int message_bytes_max = 0;   // of a received message
};

class WorkerListener {
 public:
  /// UNAVAILABLE or INVALID_ARGUMENT names --listen or --shared-memory-group and what is wrong. `service`
  /// must outlive the listener.
  static absl::StatusOr<std::unique_ptr<WorkerListener>> Open(const ListenerOptions& options,
                                                              grpc::Service& service);
  ~WorkerListener();
  WorkerListener(const WorkerListener&) = delete;
  WorkerListener& operator=(const WorkerListener&) = delete;

  /// Returns the address that clients use (a port 0 is replaced by the real one).
  const std::string& address() const { return address_; }
  /// Sets what grpc.health.v1 answers from now on. At first it is SERVING.
  void SetServing(bool serving);

 private:
  WorkerListener() = default;
  absl::Status Listen(const ListenerOptions& options, grpc::Service& service);

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::string unix_path_;  // the socket file; empty if there is none
};

/// Returns whether everyone who reaches the address may call it: over TCP without TLS neither a certificate
/// nor the permissions of a socket file restrict that.
bool AnybodyMayAsk(const std::string& listen, const TlsFiles& tls);

}  // namespace numoe::worker
