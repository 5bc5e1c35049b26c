#include "coordinator/clients/bench/paced_engine.h"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>

#include "common/base/check.h"

namespace numoe::clients {
namespace {

using SteadyClock = std::chrono::steady_clock;

int64_t Now() { return SteadyClock::now().time_since_epoch().count(); }

}  // namespace

PacedEngine::PacedEngine(const PacedEngineOptions& options)
    : options_(options),
      streams_(static_cast<size_t>(options.sequences_max)),
      emitted_at_(static_cast<size_t>(options.sequences_max * kKeptTokens)),
      thread_([this] {
        pthread_setname_np(pthread_self(), "engine");
        Run();
      }) {}

PacedEngine::~PacedEngine() {
  stopping_ = true;
  thread_.join();
}

absl::StatusOr<SequenceId> PacedEngine::Submit(engine::EngineRequest request) {
  const auto seed = static_cast<size_t>(request.sampling.seed.value_or(0));
  const MutexLock lock(mutex_);
  if (seed >= streams_.size() || streams_[seed].id != 0) {
    return absl::InvalidArgumentError(
        fmt::format("seed: found {}, expected one below {} that no stream has", seed, streams_.size()));
  }
  streams_[seed] = {.id = ++last_id_, .on_event = std::move(request.on_event)};
  by_id_[last_id_] = static_cast<int>(seed);
  return last_id_;
}

void PacedEngine::Cancel(SequenceId sequence) {
  const MutexLock lock(mutex_);
  const auto found = by_id_.find(sequence);
  if (found == by_id_.end()) return;
  NUMOE_CHECK_EQ(streams_[static_cast<size_t>(found->second)].id, sequence);
  streams_[static_cast<size_t>(found->second)] = {};
  by_id_.erase(found);
}

engine::EngineStats PacedEngine::Stats() const {
  const MutexLock lock(mutex_);
  return {.running = static_cast<int>(by_id_.size()), .ready = true};
}

int64_t PacedEngine::EmittedAt(int stream, int64_t n) const {
  NUMOE_DCHECK(0 <= stream && stream < options_.sequences_max && n >= 0);
  return emitted_at_[static_cast<size_t>(stream * kKeptTokens + n % kKeptTokens)].load();
}

void PacedEngine::Emit(int stream) {
  const MutexLock lock(mutex_);
  Stream& s = streams_[static_cast<size_t>(stream)];
  if (s.id == 0) return;
  emitted_at_[static_cast<size_t>(stream * kKeptTokens + s.emitted++ % kKeptTokens)] = Now();
  s.on_event({.sequence = s.id, .tokens = {options_.token}, .error = {}});
}

// If the thread is late, because emitting is slow or it did not get a CPU, it emits at once all tokens that
// are due.
void PacedEngine::Run() {
  NUMOE_CHECK(options_.tokens_per_second > 0 && options_.sequences_max > 0);
  const int64_t turn_ns = 1'000'000'000 / options_.tokens_per_second;
  const int64_t begin = Now();
  for (int64_t turn = 0;; ++turn) {
    for (int stream = 0; stream < options_.sequences_max; ++stream) {
      const int64_t share = options_.together ? 0 : turn_ns * stream / options_.sequences_max;
      const int64_t due = begin + turn * turn_ns + share;
      while (!stopping_ && Now() < due)
        std::this_thread::sleep_for(std::chrono::nanoseconds(std::min<int64_t>(due - Now(), 10'000'000)));
      if (stopping_) return;
      Emit(stream);
    }
  }
}

}  // namespace numoe::clients
