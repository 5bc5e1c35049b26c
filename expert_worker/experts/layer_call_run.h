// LayerCallRun: computes one layer call as its plan says.
//
// An object for one call. It refers to what the call reads, what it writes, and the scratch, which the
// executor keeps from call to call. Do computes one task of one phase. The tasks of a phase write different
// memory, so several threads may compute them at the same time; phases follow each other
// (ThreadPool::RunPhases). Owns nothing.
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

/// Memory that calls use one after the other; it grows to what the largest call needed.
struct LayerCallScratch {
  /// `threads`: the number of threads that compute tasks.
  explicit LayerCallScratch(int threads) : sums(static_cast<size_t>(threads)) {}
  void Reserve(const LayerCallPlan& plan);

  std::array<std::vector<std::byte>, kActivationFormats> quantised;  // by format: the call's tokens
  std::vector<std::byte> gathered;                                   // rows of the groups with more than one
  std::vector<std::byte> intermediate;                               // rows of all groups of a batch
  // [threads] a task's outputs before they are used; each thread allocates its own, so that it is local
  // memory.
  std::vector<std::vector<float>> sums;
};

class LayerCallRun {
 public:
  struct Inputs {
    const LayerCallView& call;
    const LayerCallShape& shape;
    const LayerCallPlan& plan;
    const TokenGroups& groups;                // the groups that were planned
    absl::Span<const ExpertWeights> experts;  // [experts], of the layer
  };
  /// All arguments must outlive the run. `out`: [tokens, hidden_size], overwritten.
  LayerCallRun(const Inputs& inputs, LayerCallScratch& scratch, absl::Span<float> out);

  /// Computes task `task` of the plan.phase_tasks[phase] tasks of a phase. REQUIRES: the phases before it are
  /// finished; the plan has groups.
  void Do(int phase, int task, int thread) const;

 private:
  QuantisedMemory QuantisedTokens(ActivationFormat format) const;
  QuantisedRows TokenRows(ActivationFormat format) const;
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
