// BenchWorker: a real expert worker in a process of its own, on this host, whose time is known.
//
// Forked before the process has threads or a GPU open. It serves sessions, those over shared memory
// included, as numoe-expert-worker does. It either answers every call with zeros at once, which leaves the
// cost of the hand-over, or computes, by turns: random INT4 experts of one layer stand for those of every
// layer. How long it computed is in memory that both processes share. The process ends with its owner.
// REQUIRES of Start: no other thread runs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace numoe::clients {

struct BenchWorkerOptions {
  std::string socket;  // path
  int hidden = 0;
  int experts = 0;
  int experts_per_token = 0;
  int width = 0;    // of an expert; 0: there are none to compute with
  int threads = 0;  // that compute; 0: all CPUs
};

class BenchWorker {
 public:
  /// Returns when it serves; its error otherwise.
  static absl::StatusOr<std::unique_ptr<BenchWorker>> Start(const BenchWorkerOptions& options);
  BenchWorker(const BenchWorker&) = delete;
  BenchWorker& operator=(const BenchWorker&) = delete;
  ~BenchWorker();

  std::string address() const { return "unix:" + options_.socket; }
  const BenchWorkerOptions& options() const { return options_; }
  /// From the next call on. It computes at first where it has experts.
  void SetComputing(bool computing);
  /// Since the last call of it: mean seconds of a call's computation, 0 without calls.
  double TakeSecondsPerCall();

 private:
  struct Shared;
  BenchWorker(const BenchWorkerOptions& options, Shared* shared) : options_(options), shared_(shared) {}
  static absl::Status Serve(const BenchWorkerOptions& options, Shared& shared);

  const BenchWorkerOptions options_;
  Shared* const shared_;
  pid_t process_ = -1;
};

}  // namespace numoe::clients
