// Scheduler: all sequences and their KV blocks, and the turns in which they move.
//
// What the engine thread runs (engine_loop.h), without a thread or a lock of its own: a turn is one model
// step over what the plan says, or one slice of waiting for a lost worker. It reads no clock but the one it
// is handed, so that tests run it in virtual time. Sequences are ended, preempted and admitted between steps
// only. The state machine, ownership and invariants are in coordinator/engine/scheduler/CONTRACT.md. One
// thread.
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
#include "coordinator/engine/scheduler/fair_places.h"
#include "coordinator/engine/scheduler/fair_queue.h"
#include "coordinator/engine/scheduler/fair_shares.h"
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
  int kv_blocks = 0;          // as the model was loaded with
  int queue_max = 256;        // waiting sequences
  int64_t max_model_len = 0;  // tokens, prompt and output
  int vocab = 0;              // ids from here on are never sampled
  std::vector<TokenId> eos_token_ids;
  int64_t worker_deadline_ms = 60'000;  // how long requests wait for a lost worker
  bool deterministic = false;
  bool prefix_caching = true;
  double decode_stretch_max =
      2;  // a step with prompt tokens against one without, where somebody decodes; 0: any
  std::function<EngineClock::time_point()> now = EngineClock::now;
};

class Scheduler {
 public:
  /// `model` and `experts` are used in Turn only; all three must outlive it.
  Scheduler(execution::Model& model, execution::ExpertBackend& experts, const EngineOptions& options,
            Metrics& metrics);

  /// What a sequence must fit to be added.
  const SequenceLimits& sequence_limits() const { return sequence_limits_; }
  void Add(SequencePtr sequence);
  /// Ends those of them that it has, without an event.
  void Cancel(const absl::flat_hash_set<SequenceId>& sequences);
  void CancelAll();
  void ForgetPrefixes(const std::string& salt_beginning) { blocks_.ForgetSalted(salt_beginning); }

  bool idle() const { return running_.empty() && waiting_.empty(); }
  /// One step, if there is something to do.
  void Turn();
  /// CHECKs that nothing is held. REQUIRES: idle.
  void CheckIdle() const;
  EngineStats Stats() const;
  /// Sequences that wait.
  TenantLines WaitingByTenant() const { return waiting_.Lines(); }

  /// Of any thread; between Add and the end of a sequence.
  int live() const { return live_.load(); }
  int waiting() const { return waiting_count_.load(); }

 private:
  double SecondsSince(EngineClock::time_point start) const {
    return std::chrono::duration<double>(options_.now() - start).count();
  }
  bool WorkersReady();
  void RunStep();
  StepPlan Plan();
  void BeginAnew();
  void Preempt(Sequence& s);
  void CarryOut(const StepPlan& plan);
  void LoseStep(const absl::Status& status, EngineClock::time_point start);
  void RecordStep(const StepPlan& plan, EngineClock::time_point start);
  void Charge(const Tenant& tenant, int tokens);
  void Sample(const StepPlan& plan, const execution::StepLogits& logits);
  absl::Status Advance(Sequence& s, StepRows& rows, size_t end);
  void Emit(Sequence& s, execution::DrawnToken drawn);
  void End(Sequence& s, FinishReason reason, const absl::Status& error = absl::OkStatus()) const;
  void EndAll(const absl::Status& error);
  void EndLate();
  void EndAllIfTooLate(const absl::Status& status);
  void Settle();
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
  std::vector<SequencePtr> running_;  // in order, but for those that the current step has admitted
  bool running_changed_ = false;      // since it was put in order
  FairQueue waiting_;
  FairShares shares_;
  FairPlaces places_;
  std::map<int, prometheus::Counter*> tenant_tokens_;  // of tenants that have names
  std::optional<EngineClock::time_point> lost_since_;  // begin of the first of the steps lost in a row
  int deadlines_ = 0;                                  // sequences that have one
  TokenEvent event_;                                   // scratch
  EngineClock::time_point step_end_;                   // of the step whose tokens are handed out
  EngineStats stats_;                                  // counters and the last step
  std::atomic<int> live_{0};
  std::atomic<int> waiting_count_{0};
};

}  // namespace numoe::engine
