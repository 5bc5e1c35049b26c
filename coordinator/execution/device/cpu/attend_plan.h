// Plans how one attention call is divided into tasks: pure functions, whose plan CpuAttention executes.
//
// Keys are processed in parts of kPartKeys positions, beginning at position 0, regardless of the batch. The
// partial results of a row are always added in the order of its parts, so a row's result never depends on how
// the work was divided. A task owns some heads of some tokens of one sequence. Usually it adds up its parts
// as it computes them (long prompts, many sequences). Where that would leave threads idle (few decoding
// sequences with long contexts), parts are scattered: a task computes one part and stores its result, and a
// later AttendJoin adds up the parts of the token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/execution/device/step_layout.h"

namespace numoe::execution {

/// Positions of one part: large enough that adding a part costs little (one pass over a row's output), small
/// enough that packed keys and values of GQA stay in a second-level cache (256 KB at 128 channels).
inline constexpr int kPartKeys = 512;
/// Rows (heads of tokens) that share one pass over a packed part, so that scores stay in cache; a multiple of
/// six, the block size of the matrix kernels.
inline constexpr int kGroupRows = 96;

/// The most rows of a task; with this many, packing a part costs a few percent of multiplying by it.
inline constexpr int kTaskRowsMax = 512;

struct AttendShape {
  int heads = 0;
  int kv_heads = 1;
  int threads = 1;
  int tasks_per_thread = 4;  // more than one, so that tasks of unequal length are balanced
  int task_rows_max = kTaskRowsMax;
};

/// Tokens [begin, end) of one sequence in the step.
struct TokenRun {
  int begin = 0;
  int end = 0;
  int tokens() const { return end - begin; }
};
/// Returns a run for each sequence. REQUIRES: a sequence's tokens are adjacent and ordered by position.
std::vector<TokenRun> FindRuns(const StepLayout& layout);

/// Tokens [token_begin, token_end) of the step, which belong to one sequence; heads [head_begin, head_end),
/// which share one cache head; parts [part_begin, part_end).
struct AttendTask {
  int token_begin = 0;
  int token_end = 0;
  int kv_head = 0;
  int head_begin = 0;
  int head_end = 0;
  int part_begin = 0;
  int part_end = 0;
  int scattered_parts = 0;  // parts per row in the scattered results; 0: the task adds up its own parts
  int64_t scattered = 0;    // the first row of the results [token][head][part], if they are scattered

  int rows() const { return (token_end - token_begin) * (head_end - head_begin); }
};

/// A token whose parts were scattered: its results are [head][part], beginning with row `scattered`.
struct AttendJoin {
  int token = 0;
  int parts = 0;
  int64_t scattered = 0;
};

struct AttendPlan {
  std::vector<AttendTask> tasks;  // the longest first
  std::vector<AttendJoin> joins;
  int64_t scattered_rows = 0;
};

/// Plans the attention of the given runs of a step. REQUIRES: shape.heads % shape.kv_heads == 0.
AttendPlan PlanAttend(const StepLayout& layout, const std::vector<TokenRun>& runs, const AttendShape& shape);

/// For logs and test failures.
std::string Describe(const AttendPlan& plan);

}  // namespace numoe::execution
