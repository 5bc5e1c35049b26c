// RingServer: hands out ring segments to coordinators on this host and serves layer calls through them.
//
// Listens on an abstract Unix socket (no file to leave behind). Each connection is one session with a thread
// of its own, which creates the segment, holds the worker's side of it and answers calls until the
// coordinator goes away. All sessions, those over gRPC included, share one SharedExecutor, whose mutex lets
// one call run at a time. The destructor ends all sessions.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/transport/call_codec.h"
#include "common/transport/layer_call.h"

namespace numoe {

struct RingServerOptions {
  CallShape shape;
  int experts_per_token = 8;
  int spin_us = 200;    // between calls of a step
  int experts_fd = -1;  // of the weights, for coordinators that ask; -1: they are not shared
};

/// Serialises calls of all sessions, ring and stream alike, and counts them.
class SharedExecutor {
 public:
  explicit SharedExecutor(LayerExecutor& executor) : executor_(executor) {}
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out);
  uint64_t calls() const { return calls_.load(); }
  uint64_t rows() const { return rows_.load(); }

 private:
  Mutex mutex_;
  LayerExecutor& executor_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> rows_{0};
};

class RingServer {
 public:
  static absl::StatusOr<std::unique_ptr<RingServer>> Start(SharedExecutor& executor,
                                                           const RingServerOptions& options);
  ~RingServer();

  /// Abstract socket name that the handshake passes on.
  const std::string& socket_name() const { return name_; }
  int sessions() const { return live_sessions_.load(); }

 private:
  struct Session {
    std::thread thread;
    std::atomic<bool> done{false};
  };
  RingServer(SharedExecutor& executor, const RingServerOptions& options)
      : executor_(executor), options_(options) {}
  void AcceptLoop();
  void Serve(int socket);
  // Hands out what the coordinator asks for until it has attached.
  bool AwaitAttached(int socket) const;
  void Reap(bool all);

  SharedExecutor& executor_;
  const RingServerOptions options_;
  std::string name_;
  int listener_ = -1;
  std::atomic<bool> stop_{false};
  std::atomic<int> live_sessions_{0};
  std::list<Session> sessions_;  // accept thread only
  std::thread accept_thread_;
};

}  // namespace numoe
