// Heartbeat: notices that a worker on another host, or the network to it, is silent.
//
// Asks the worker's statistics every second and gives it up after some seconds without an answer. gRPC's own
// keepalive cannot do that for a client that makes synchronous calls: between two calls nobody reads its
// connection but a timer of five seconds, so that a ping's answer would come too late on the best network.
// Look reads the connection itself, never blocks, and notices at once where the connection breaks. A process
// that is stopped answers no more than a network that is cut. One thread at a time.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe {

class Heartbeat {
 public:
  /// `stub` outlives this.
  Heartbeat(v1::ExpertWorker::Stub& stub, int64_t every_ms, int64_t deadline_ms);
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
  // Of the question that waits for its answer; null: none does.
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::StatsReply>> question_;
  v1::StatsReply reply_;
  grpc::Status status_;
};

}  // namespace numoe
