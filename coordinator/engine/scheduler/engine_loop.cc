#include "coordinator/engine/scheduler/engine_loop.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "coordinator/engine/scheduler/token_rate.h"

namespace numoe::engine {
namespace {

class EngineLoop final : public Engine {
 public:
  EngineLoop(execution::Model& model, execution::ExpertBackend& experts, const EngineOptions& options,
             Metrics& metrics)
      : options_(options),
        experts_(experts),
        metrics_(metrics),
        scheduler_(model, experts, options, metrics),
        stats_(scheduler_.Stats()) {
    thread_ = std::thread([this] { Loop(); });
  }

  ~EngineLoop() override {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    wake_.NotifyAll();
    thread_.join();
  }

  bool HasRoom(const Tenant& tenant, const TenantLines& upcoming) const override {
    const MutexLock lock(mutex_);
    return !draining_ && AcceptsNow(tenant, upcoming);
  }

  absl::StatusOr<SequenceId> Submit(EngineRequest request) override {
    ASSIGN_OR_RETURN(SequencePtr sequence, MakeSequence(std::move(request), scheduler_.sequence_limits()));
    NUMOE_CHECK_GE(sequence->request.tenant.weight, 1);
    NUMOE_CHECK(sequence->request.on_event != nullptr);
    const auto prompt = static_cast<double>(sequence->prompt_tokens);
    const MutexLock lock(mutex_);
    if (draining_ || stop_) return absl::UnavailableError("the server is draining and takes no new requests");
    if (!AcceptsNow(sequence->request.tenant, {})) {
      metrics_.Add(CounterId::kRequestsRejected);
      return absl::ResourceExhaustedError(
          fmt::format("the queue is full: {} requests wait, expected fewer than {}; try again later",
                      WaitingNow(), options_.queue_max));
    }
    sequence->arrived = options_.now();
    if (LiveNow() == 0) moved_ = turned_ = sequence->arrived;
    sequence->seed = sequence->request.sampling.seed.value_or(random_());
    const SequenceId id = sequence->id = ++last_id_;
    submitted_.push_back(std::move(sequence));
    metrics_.Add(CounterId::kTokensPrompt, prompt);
    wake_.NotifyAll();
    return id;
  }

  void Cancel(SequenceId sequence) override {
    const MutexLock lock(mutex_);
    cancelled_.insert(sequence);
    wake_.NotifyAll();
  }

  void ResetPrefixCache(const std::string& salt_beginning) override {
    const MutexLock lock(mutex_);
    reset_prefixes_.insert(salt_beginning);
    wake_.NotifyAll();
  }

  EngineStats Stats() const override {
    const MutexLock lock(mutex_);
    EngineStats stats = stats_;
    stats.waiting = WaitingNow();
    stats.ready = experts_.Ready();
    if (LiveNow() > 0) {
      const EngineClock::time_point now = options_.now();
      stats.stalled_s = std::chrono::duration<double>(now - moved_).count();
      stats.turn_s = std::chrono::duration<double>(now - turned_).count();
    }
    return stats;
  }

  bool Drain(int64_t deadline_ms) override {
    const MutexLock lock(mutex_);
    draining_ = true;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
    while (LiveNow() != 0 && idle_.WaitUntil(mutex_, deadline)) {
    }
    return LiveNow() == 0;
  }

 private:
  void Loop() {
    pthread_setname_np(pthread_self(), "engine");
    while (ReceiveCommands()) {
      scheduler_.Turn();
      PublishStats();
    }
    scheduler_.CancelAll();
  }

  // Waits until there is something to do, and passes the commands of other threads to the scheduler. Returns
  // false if the engine stops.
  bool ReceiveCommands() {
    absl::flat_hash_set<SequenceId> cancelled;
    {
      const MutexLock lock(mutex_);
      if (scheduler_.idle() && submitted_.empty()) {
        scheduler_.CheckIdle();
        experts_.OnIdle();
        while (!stop_ && submitted_.empty() && cancelled_.empty() && reset_prefixes_.empty())
          wake_.Wait(mutex_);
      }
      for (const std::string& salt_beginning : std::exchange(reset_prefixes_, {}))
        scheduler_.ResetPrefixCache(salt_beginning);
      for (SequencePtr& sequence : submitted_) scheduler_.Add(std::move(sequence));
      submitted_.clear();
      tenants_waiting_ = scheduler_.WaitingByTenant();
      cancelled.swap(cancelled_);
      if (stop_) return false;
    }
    scheduler_.Cancel(cancelled);
    return true;
  }

  void PublishStats() {
    const EngineStats now = scheduler_.Stats();
    metrics_.Set(GaugeId::kRequestsRunning, now.running);
    metrics_.Set(GaugeId::kRequestsWaiting, now.waiting);
    metrics_.Set(GaugeId::kKvBlocksUsed, now.kv_blocks_used);
    metrics_.Set(GaugeId::kKvTokensUsed, double{1} * now.kv_blocks_used * options_.limits.block_tokens);
    metrics_.Set(GaugeId::kKvUsage, static_cast<double>(now.kv_blocks_used) / now.kv_blocks_total);
    metrics_.Set(GaugeId::kTokensPerSecond, token_rate_.Measure(now.tokens_generated, options_.now(),
                                                                now.running == 0 && now.waiting == 0));
    const MutexLock lock(mutex_);
    tenants_waiting_ = scheduler_.WaitingByTenant();
    turned_ = options_.now();
    if (now.steps != stats_.steps) moved_ = turned_;
    stats_ = now;
    if (LiveNow() == 0) idle_.NotifyAll();
  }

  int WaitingNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return scheduler_.waiting() + static_cast<int>(submitted_.size());
  }
  // A full queue still takes requests of a tenant that has less than its part, so that no tenant keeps others
  // out.
  bool AcceptsNow(const Tenant& tenant, const TenantLines& upcoming) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int requests = WaitingNow();
    for (const auto& [other, added] : upcoming) requests += added.requests;
    if (requests < options_.queue_max) return true;
    TenantLines waiting = tenants_waiting_;
    for (const SequencePtr& s : submitted_) {
      TenantLine& line = waiting[s->request.tenant.id];
      ++line.requests;
      line.weight = s->request.tenant.weight;
    }
    for (const auto& [other, added] : upcoming) {
      TenantLine& line = waiting[other];
      line.requests += added.requests;
      line.weight = added.weight;
    }
    return FullQueueTakes(waiting, tenant.id, tenant.weight, options_.queue_max);
  }
  int LiveNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return scheduler_.live() + static_cast<int>(submitted_.size());
  }

  const EngineOptions options_;
  execution::ExpertBackend& experts_;
  Metrics& metrics_;
  Scheduler scheduler_;   // engine thread only, except its limits and counts
  TokenRate token_rate_;  // engine thread only

  mutable Mutex mutex_;
  CondVar wake_;
  CondVar idle_;
  std::vector<SequencePtr> submitted_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<SequenceId> cancelled_ ABSL_GUARDED_BY(mutex_);
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);
  EngineClock::time_point moved_ ABSL_GUARDED_BY(mutex_);   // when the last step or idle time ended
  EngineClock::time_point turned_ ABSL_GUARDED_BY(mutex_);  // the same for turns
  SequenceId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::string> reset_prefixes_ ABSL_GUARDED_BY(mutex_);  // the beginnings of salts
  TenantLines tenants_waiting_ ABSL_GUARDED_BY(mutex_);           // in the scheduler, as of its last turn
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_){std::random_device{}()};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Engine> StartEngine(execution::Model& model, execution::ExpertBackend& experts,
                                    const EngineOptions& options, Metrics& metrics) {
  return std::make_unique<EngineLoop>(model, experts, options, metrics);
}

}  // namespace numoe::engine
