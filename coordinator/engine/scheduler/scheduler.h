// Scheduler: owns all sequences and their KV blocks, and runs the steps that advance them.
//
// The engine thread (engine_loop.h) runs it; it has neither a thread nor a lock of its own. A turn is one
// step of the model as planned, or one slice of waiting for a lost worker. It reads only the clock in
// EngineOptions, so that tests can run it in virtual time. Sequences are ended, preempted and admitted only
// between steps. The state machine, ownership and invariants are in coordinator/engine/scheduler/CONTRACT.md.
// One thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/observe/metrics.h"
#include "coordinator/engine/scheduler/batch_filler.h"
#include "coordinator/engine/scheduler/block_tables.h"
#include "coordinator/engine/scheduler/fair_queue.h"
#include "coordinator/engine/scheduler/fair_shares.h"
#include "coordinator/engine/scheduler/fair_slots.h"
#include "coordinator/engine/scheduler/sequence_views.h"
#include "coordinator/engine/scheduler/step_pacer.h"
#include "coordinator/engine/scheduler/step_planner.h"
#include "coordinator/engine/scheduler/token_drawer.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe::engine {

using EngineClock = std::chrono::steady_clock;

struct EngineOptions {
  PlannerLimits limits;
  int kv_blocks = 0;          // the number with which the model was loaded
  int queue_max = 256;        // waiting sequences
  int64_t max_model_len = 0;  // tokens, prompt and output
  int vocab = 0;              // ids that are not below this are never sampled
  std::vector<TokenId> eos_token_ids;
  int64_t worker_deadline_ms = 60'000;  // how long requests wait for a lost worker
  bool deterministic = false;
  bool prefix_caching = true;
  double decode_stretch_max =
      2;  // how many times as long prompt tokens may make a step in which sequences decode; 0 means no limit
  std::function<EngineClock::time_point()> now = EngineClock::now;
};

class Scheduler {
 public:
  /// Only Turn uses `model` and `experts`. These and `metrics` must outlive it.
  Scheduler(execution::Model& model, execution::ExpertBackend& experts, const EngineOptions& options,
            Metrics& metrics);

  /// Returns the limits that a sequence must satisfy to be added.
  const SequenceLimits& sequence_limits() const { return sequence_limits_; }
  void Add(SequencePtr sequence);
  /// Ends those of these sequences that it has, without an event.
  void Cancel(const absl::flat_hash_set<SequenceId>& sequences);
  void CancelAll();
  void ResetPrefixCache(const std::string& salt_beginning) { blocks_.UnpublishBySalt(salt_beginning); }

  bool idle() const { return running_.empty() && waiting_.empty(); }
  /// Ends sequences whose deadline has passed, and runs one step if there is something to compute.
  void Turn();
  /// CHECKs that no sequence and no block is left. REQUIRES: idle().
  void CheckIdle() const;
  EngineStats Stats() const;
  /// Returns how many sequences of each tenant wait.
  TenantLines WaitingByTenant() const { return waiting_.Lines(); }

  /// Returns the number of sequences that were added and have not ended. Any thread.
  int live() const { return live_.load(); }
  /// Returns the number of waiting sequences. Any thread.
  int waiting() const { return waiting_count_.load(); }

 private:
  double SecondsSince(EngineClock::time_point start) const {
    return std::chrono::duration<double>(options_.now() - start).count();
  }
  bool WorkersReady();
  void RunStep();
  StepPlan Plan();
  void RecomputeAll();
  void Preempt(Sequence& s);
  void ExecutePlan(const StepPlan& plan);
  void DropStep(const absl::Status& status, EngineClock::time_point start);
  void RecordStep(const StepPlan& plan, EngineClock::time_point start);
  void Charge(const Tenant& tenant, int tokens);
  void Sample(const StepPlan& plan, const execution::StepLogits& logits);
  absl::Status Advance(Sequence& s, StepRows& rows, size_t end);
  void Emit(Sequence& s, execution::DrawnToken drawn);
  void End(Sequence& s, FinishReason reason, const absl::Status& error = absl::OkStatus()) const;
  void EndAll(const absl::Status& error);
  void EndExpired();
  void EndAllIfTooLate(const absl::Status& status);
  void RemoveFinished();
  void Finish(Sequence& s);
  void Queue(SequencePtr s);
  void ForEach(absl::FunctionRef<void(Sequence&)> visit);

  execution::Model& model_;
  execution::ExpertBackend& experts_;
  const EngineOptions options_;
  Metrics& metrics_;
  const SequenceLimits sequence_limits_;

  BlockPool blocks_;
  BlockTables tables_;
  StepPacer pacer_;
  TokenDrawer drawer_;
  BatchFiller filler_;
  std::vector<SequencePtr> running_;  // in order, then those that the current step has admitted
  bool running_changed_ = false;      // since it was last sorted
  FairQueue waiting_;
  FairShares shares_;
  FairSlots slots_;
  std::map<int, prometheus::Counter*> tenant_tokens_;  // by tenant, for those that have names
  std::optional<EngineClock::time_point> lost_since_;  // when the first of consecutive lost steps began
  int deadlines_ = 0;                                  // number of sequences that have one
  TokenEvent event_;                                   // scratch
  EngineClock::time_point step_end_;                   // of the step whose tokens are being sent
  EngineStats stats_;                                  // its counters and last step; Stats() adds the rest
  std::atomic<int> live_{0};
  std::atomic<int> waiting_count_{0};
};

}  // namespace numoe::engine
