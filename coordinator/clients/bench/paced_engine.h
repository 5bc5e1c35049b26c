// PacedEngine: an engine without a model. Every sequence gets the same token again and again at a given rate.
//
// A request's seed, 0 to sequences_max - 1, is the number of its stream. The streams' tokens are emitted
// evenly spread over time, or with `together` all at the same moment, one after the other. The engine keeps
// the time of each token (EmittedAt), from which a benchmark measures how long it takes to the client. The
// contract of Engine holds; the engine's own thread emits the tokens.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/engine/scheduler/engine.h"

namespace numoe::clients {

struct PacedEngineOptions {
  int sequences_max = 1;
  int tokens_per_second = 1;  // of each sequence
  bool together = false;
  TokenId token = 0;
};

class PacedEngine final : public engine::Engine {
 public:
  explicit PacedEngine(const PacedEngineOptions& options);
  ~PacedEngine() override;

  bool HasRoom(const engine::Tenant&, const engine::TenantLines&) const override { return true; }
  absl::StatusOr<SequenceId> Submit(engine::EngineRequest request) override;
  void Cancel(SequenceId sequence) override;
  engine::EngineStats Stats() const override;
  void ResetPrefixCache(const std::string&) override {}
  bool Drain(int64_t) override { return true; }

  /// Returns when the stream's `n`-th token was emitted, in nanoseconds of the steady clock. REQUIRES: it is
  /// one of the stream's last kKeptTokens.
  int64_t EmittedAt(int stream, int64_t n) const;
  static constexpr int64_t kKeptTokens = 256;

 private:
  struct Stream {
    SequenceId id = 0;  // 0 if no request uses the stream
    std::function<void(const engine::TokenEvent&)> on_event;
    int64_t emitted = 0;
  };

  void Run();
  void Emit(int stream);

  const PacedEngineOptions options_;
  mutable Mutex mutex_;
  std::vector<Stream> streams_ ABSL_GUARDED_BY(mutex_);      // [seed]
  std::map<SequenceId, int> by_id_ ABSL_GUARDED_BY(mutex_);  // the running sequences
  std::vector<std::atomic<int64_t>> emitted_at_;             // [seed][token % kKeptTokens]
  SequenceId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace numoe::clients
