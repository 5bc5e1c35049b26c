// WorkerListener: the gRPC server at a worker's address.
//
// Serves the given service and grpc.health.v1 on one address (unix:PATH or
// HOST:PORT). A stale socket file of a dead process is replaced; one that a live process serves is an error
// naming it. With a shared-memory group its processes, too, may connect to the socket's file, at no moment
// anybody else. Whoever asks costs at most what common/transport/transport_limits.h allows: streams, threads,
// bytes of a message. The destructor ends all calls and removes the socket file. Main thread; SetServing:
// any.
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
  std::optional<gid_t> group;  // whose processes may connect to a socket file, beside our user's
  TlsFiles tls;                // of HOST:PORT; not given: plain text
  int message_bytes_max = 0;   // of one that is received
};

class WorkerListener {
 public:
  /// UNAVAILABLE or INVALID_ARGUMENT names --listen or --shared-memory-group and what is in the way.
  /// `service` outlives the listener.
  static absl::StatusOr<std::unique_ptr<WorkerListener>> Open(const ListenerOptions& options,
                                                              grpc::Service& service);
  ~WorkerListener();
  WorkerListener(const WorkerListener&) = delete;
  WorkerListener& operator=(const WorkerListener&) = delete;

  /// The address that clients use (a port 0 is resolved).
  const std::string& address() const { return address_; }
  /// What grpc.health.v1 answers from now on; at first it serves.
  void SetServing(bool serving);

 private:
  WorkerListener() = default;
  absl::Status Listen(const ListenerOptions& options, grpc::Service& service);

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::string unix_path_;  // of the socket file; empty: there is none
};

/// Whether anybody who reaches the address may ask: over TCP without TLS, where nobody shows a certificate or
/// opens a socket's file.
bool AnybodyMayAsk(const std::string& listen, const TlsFiles& tls);

}  // namespace numoe::worker
