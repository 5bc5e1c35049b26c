// Plans how a worker computes one layer call. Pure functions; LayerCallRun executes the plan.
//
// A call runs in phases. Each phase sees what the phases before it wrote. First the call's tokens are
// quantised, in every format that gate and up of some group read. Then come batches of groups, which use the
// same scratch memory one after the other. In each batch the rows of a group are gathered next to each other,
// so that its matrices read a dense block; then gate and up compute the group's intermediate values, and down
// adds the groups of the batch to the output. A task of gate and up computes some columns of one group's
// intermediate values. A task of down computes some columns of the output and adds all groups in ascending
// order of experts. So every value is computed by one task, and results depend neither on how the work is
// divided nor on the threads.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/kernels/kernels.h"
#include "expert_worker/experts/slice_layout.h"
#include "expert_worker/grouping/token_groups.h"

namespace numoe::worker {

struct LayerCallShape {
  int tokens = 0;
  int hidden_size = 0;
  int width = 0;  // this slice's part of an expert
  ExpertFormats formats;
  Isa isa = Isa::kScalar;
  Precision precision = Precision::kFast;  // the call's EffectivePrecision
  int threads = 1;                         // that claim tasks
};

/// The rows of one group: their formats, and where they are.
struct GroupPlan {
  ExpertGroup group;
  ActivationFormat x_format = ActivationFormat::kFloat;  // which gate and up read
  ActivationFormat h_format = ActivationFormat::kFloat;  // which down reads
  size_t x_offset = 0;  // where the gathered rows begin in their scratch; unused by a group of one row
  size_t h_offset = 0;  // where the intermediate values begin in their scratch

  /// A single row is not gathered, but read where its token's row is.
  bool gathered() const { return group.rows > 1; }
};

/// Columns [col_begin, col_end), which begin with a whole step, of tokens [token_begin, token_end).
struct QuantiseTask {
  ActivationFormat format = ActivationFormat::kFloat;
  int token_begin = 0, token_end = 0;
  int col_begin = 0, col_end = 0;
};
/// Outputs [row_begin, row_end) of gate and of up of one group.
struct GateAndUpTask {
  int group = 0;  // index in LayerCallPlan::groups
  int row_begin = 0, row_end = 0;
};
/// Outputs [row_begin, row_end) of down, of all groups of the batch.
struct DownTask {
  int row_begin = 0, row_end = 0;
};

struct LayerPhase {
  enum class Kind { kQuantise, kGather, kGateAndUp, kDown };
  Kind kind = Kind::kQuantise;
  int first_task = 0;                  // in the list of this kind of task
  int group_begin = 0, group_end = 0;  // groups of the batch
};

struct LayerCallPlan {
  std::vector<GroupPlan> groups;  // in ascending order of experts
  std::vector<QuantiseTask> quantise;
  std::vector<int> gather;  // groups
  std::vector<GateAndUpTask> gate_and_up;
  std::vector<DownTask> down;
  std::vector<LayerPhase>
      phases;  // quantising the tokens, then three for each batch; empty if there are no groups
  std::vector<int> phase_tasks;  // [phases], for ThreadPool::RunPhases
  // Bytes of scratch, which the batches use one after the other.
  std::array<size_t, kActivationFormats> quantised_bytes =
      {};  // by format, for the rows of all tokens; 0 if not quantised
  size_t gathered_bytes = 0;
  size_t intermediate_bytes = 0;

  /// Returns the plan as text, for logs and failing tests.
  std::string ToString() const;
};

/// Replaces the content of `plan` and reuses its memory. REQUIRES: `groups` are the result of GroupTokens for
/// a call with shape.tokens tokens.
void PlanLayerCall(absl::Span<const ExpertGroup> groups, const LayerCallShape& shape, LayerCallPlan& plan);

}  // namespace numoe::worker
