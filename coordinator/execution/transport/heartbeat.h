// Heartbeat: notices that a worker, or the network to it, is silent.
//
// It works in the same way for both data paths: a process that is stopped keeps its sockets and its shared
// memory, and only an answer shows that it is running. It requests the worker's statistics every second, and
// reports the worker as lost after some seconds without an answer. gRPC's own keepalive cannot do that for a
// client that makes synchronous calls: between two calls only a timer of five seconds reads its connection,
// so that the answer to a ping would be too late even on the best network. Poll reads the connection itself,
// never blocks, and notices at once if the connection breaks; a refusal is a sign of life, too. For a session
// over shared memory a broken connection means little, because the calls do not use it and the mailbox socket
// shows whether the worker died: heartbeats are then sent over another connection until the deadline. A
// heartbeat contains the session's number, so that the worker knows that the coordinator is running. One
// thread at a time.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe::execution {

class Heartbeat {
 public:
  /// `stub` must outlive this object.
  Heartbeat(v1::ExpertWorker::Stub& stub, int64_t every_ms, int64_t deadline_ms);
  /// Makes later heartbeats a sign of life of this session over shared memory.
  void SetSession(uint64_t mailbox_session) { request_.set_mailbox_session(mailbox_session); }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  ~Heartbeat();

  /// Call this again and again. Returns UNAVAILABLE if the worker is lost, with what showed it.
  absl::Status Poll();

 private:
  void SendHeartbeat();

  v1::ExpertWorker::Stub& stub_;
  const int64_t every_ms_;
  const int64_t deadline_ms_;
  grpc::CompletionQueue queue_;
  std::chrono::steady_clock::time_point next_;
  std::chrono::steady_clock::time_point last_sign_;
  // The heartbeat that has no answer yet; null if there is none.
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::StatsReply>> pending_;
  v1::StatsRequest request_;
  v1::StatsReply reply_;
  grpc::Status status_;
};

}  // namespace numoe::execution
