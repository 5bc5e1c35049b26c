// Heartbeat: notices that a worker, or the network to it, is silent.
//
// The same for both data paths: a process that is stopped keeps its sockets and its shared memory, and only
// an answer tells that it lives. Asks the worker's statistics every second and gives it up after some seconds
// without an answer. gRPC's own keepalive cannot do that for a client that makes synchronous calls: between
// two calls nobody reads its connection but a timer of five seconds, so that a ping's answer would come too
// late on the best network. Look reads the connection itself, never blocks, and notices at once where the
// connection breaks; a refusal is a sign of life, too. For a session over shared memory a broken connection
// says little, as the calls do not go through it and the mailbox socket tells of a death: it is asked again,
// over another connection, until the deadline. The questions say of which session this end is, so that the
// worker knows that it lives. One thread at a time.
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
  /// `stub` outlives this.
  Heartbeat(v1::ExpertWorker::Stub& stub, int64_t every_ms, int64_t deadline_ms);
  /// Questions are a sign of life of this session over shared memory from now on.
  void SpeakFor(uint64_t mailbox_session) { request_.set_mailbox_session(mailbox_session); }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  ~Heartbeat();

  /// To be called again and again. UNAVAILABLE: the worker is gone, and how that was seen.
  absl::Status Look();

 private:
  void Ask();

  v1::ExpertWorker::Stub& stub_;
  const int64_t every_ms_;
  const int64_t deadline_ms_;
  grpc::CompletionQueue queue_;
  std::chrono::steady_clock::time_point next_;
  std::chrono::steady_clock::time_point last_sign_;
  // Of the question that waits for its answer; null: none does.
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::StatsReply>> question_;
  v1::StatsRequest request_;
  v1::StatsReply reply_;
  grpc::Status status_;
};

}  // namespace numoe::execution
