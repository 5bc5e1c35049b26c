// BenchWorker: a real expert worker in its own process on this host, whose computing time is measured.
//
// The process is forked before this one has threads or a GPU open. It serves sessions, including those over
// shared memory, as numoe-expert-worker does. SetComputing decides whether it answers every call with zeros
// at once, which leaves only the cost of the hand-over, or computes: the random INT4 experts of one layer are
// used for every layer. Its computing time is in memory that both processes share. The process ends with its
// owner. Start REQUIRES that no other thread is running.
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
  int width = 0;    // of an expert; 0: the worker has no experts and cannot compute
  int threads = 0;  // compute threads; 0: one for each CPU
};

class BenchWorker {
 public:
  /// Returns when the worker serves, or with its error.
  static absl::StatusOr<std::unique_ptr<BenchWorker>> Start(const BenchWorkerOptions& options);
  BenchWorker(const BenchWorker&) = delete;
  BenchWorker& operator=(const BenchWorker&) = delete;
  ~BenchWorker();

  std::string address() const { return "unix:" + options_.socket; }
  const BenchWorkerOptions& options() const { return options_; }
  /// Applies to the following calls. At first the worker computes if it has experts.
  void SetComputing(bool computing);
  /// Returns the mean computing time of a layer call in seconds since the last TakeSecondsPerCall; 0
  /// without calls.
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
