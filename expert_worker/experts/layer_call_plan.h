// How a worker computes one layer call: pure planning, obeyed by LayerCallRun.
//
// A call runs in phases, each of which sees what those before wrote. First its tokens are quantised, in every
// form that some group's gate and up want. Then come batches of groups, whose scratch memory is shared: in
// each the rows of a group are gathered next to each other, so that its matrices read a dense block; gate and
// up make a group's intermediate values, and down adds the batch's groups to the output. A task of gate and
// up owns some columns of one group's intermediate values; a task of down owns some columns of the output
// and adds all groups in ascending order of experts. So every value has one owner, and results depend on
// neither the cut nor the threads.
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
  int width = 0;  // of this slice's part of an expert
  ExpertFormats formats;
  Isa isa = Isa::kScalar;
  Precision precision = Precision::kFast;  // EffectivePrecision of the call
  int threads = 1;                         // that will claim tasks
};

/// One group's rows: which form they have, and where they are.
struct GroupPlan {
  ExpertGroup group;
  ActivationForm x_form = ActivationForm::kFloat;  // that gate and up read
  ActivationForm h_form = ActivationForm::kFloat;  // that down reads
  size_t x_offset = 0;  // of the gathered rows in their scratch; unused by a group of one row
  size_t h_offset = 0;  // of the intermediate values in theirs

  /// A single row is read where its token's row is.
  bool gathered() const { return group.rows > 1; }
};

/// Columns [col_begin, col_end), from the beginning of a step on, of tokens [token_begin, token_end).
struct QuantiseTask {
  ActivationForm form = ActivationForm::kFloat;
  int token_begin = 0, token_end = 0;
  int col_begin = 0, col_end = 0;
};
/// Outputs [row_begin, row_end) of gate and of up, of one group.
struct GateAndUpTask {
  int group = 0;  // of LayerCallPlan::groups
  int row_begin = 0, row_end = 0;
};
/// Outputs [row_begin, row_end) of down, of all groups of the batch.
struct DownTask {
  int row_begin = 0, row_end = 0;
};

struct LayerPhase {
  enum class Kind { kQuantise, kGather, kGateAndUp, kDown };
  Kind kind = Kind::kQuantise;
  int first_task = 0;                  // in the kind's list
  int group_begin = 0, group_end = 0;  // of the batch
};

struct LayerCallPlan {
  std::vector<GroupPlan> groups;  // in ascending order of experts
  std::vector<QuantiseTask> quantise;
  std::vector<int> gather;  // groups
  std::vector<GateAndUpTask> gate_and_up;
  std::vector<DownTask> down;
  std::vector<LayerPhase> phases;  // the tokens', then three of each batch; none where there are no groups
  std::vector<int> phase_tasks;    // [phases], for ThreadPool::RunPhases
  // Bytes of scratch, which batches use one after the other.
  std::array<size_t, kActivationForms> quantised_bytes = {};  // by form: all tokens' rows; 0: not quantised
  size_t gathered_bytes = 0;
  size_t intermediate_bytes = 0;

  /// For logs and failing tests.
  std::string ToString() const;
};

/// Replaces what `plan` holds; its memory is used again. REQUIRES: `groups` are GroupTokens' of a call of
/// shape.tokens tokens.
void PlanLayerCall(absl::Span<const ExpertGroup> groups, const LayerCallShape& shape, LayerCallPlan& plan);

}  // namespace numoe::worker
