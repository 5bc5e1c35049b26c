// LayerCallRun: computes one layer call as its plan says.
//
// A value for one call: what the call reads, what it writes, and the scratch between, which the executor
// keeps from call to call. Do computes one task of one phase; tasks of a phase write different memory, so any
// threads may do them at a time, and phases follow each other (ThreadPool::RunPhases). Owns nothing.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "common/kernels/kernels.h"
#include "common/linear/quantised_product.h"
#include "common/linear/quantised_rows.h"
#include "common/transport/layer_call.h"
#include "expert_worker/experts/layer_call_plan.h"
#include "expert_worker/experts/slice_layout.h"
#include "expert_worker/grouping/token_groups.h"

namespace numoe::worker {

/// Memory that calls share one after the other; it grows to what the largest call needed.
struct LayerCallScratch {
  /// `threads`: that may do tasks.
  explicit LayerCallScratch(int threads) : sums(static_cast<size_t>(threads)) {}
  void Reserve(const LayerCallPlan& plan);

  std::array<std::vector<std::byte>, kActivationForms> quantised;  // by form: the call's tokens
  std::vector<std::byte> gathered;                                 // rows of the groups with more than one
  std::vector<std::byte> intermediate;                             // rows of all groups of a batch
  // [threads] a task's outputs before they are used; each thread makes its own, so that it is local memory.
  std::vector<std::vector<float>> sums;
};

class LayerCallRun {
 public:
  struct Inputs {
    const LayerCallView& call;
    const LayerCallShape& shape;
    const LayerCallPlan& plan;
    const TokenGroups& groups;                // of which the plan is
    absl::Span<const ExpertWeights> experts;  // [experts] of the layer
  };
  /// All of it must outlive the run. `out`: [tokens, hidden_size], overwritten.
  LayerCallRun(const Inputs& inputs, LayerCallScratch& scratch, absl::Span<float> out);

  /// Task `task` of plan.phase_tasks[phase]. REQUIRES: the phases before are done; a plan with groups.
  void Do(int phase, int task, int thread) const;

 private:
  QuantisedMemory QuantisedTokens(ActivationForm form) const;
  QuantisedRows TokenRows(ActivationForm form) const;
  QuantisedMemory GatheredRows(const GroupPlan& group) const;
  QuantisedMemory IntermediateRows(const GroupPlan& group) const;
  int TokenOf(const GroupPlan& group, int row) const;
  const ExpertWeights& WeightsOf(const GroupPlan& group) const;
  float* Sums(int thread, size_t values) const;

  void Quantise(const QuantiseTask& task) const;
  void Gather(const GroupPlan& group) const;
  void GateAndUp(const GateAndUpTask& task, int thread) const;
  void Down(const LayerPhase& phase, const DownTask& task, int thread) const;
  void AddRows(const GroupPlan& group, const DownTask& task, const float* sums) const;

  const Inputs in_;
  LayerCallScratch& scratch_;
  const absl::Span<float> out_;
};

}  // namespace numoe::worker
