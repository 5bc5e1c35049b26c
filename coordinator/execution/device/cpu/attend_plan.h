// How one attention call is cut into tasks: pure planning, obeyed by CpuAttention.
//
// Keys are attended in parts of kPartKeys positions from 0 on, whatever the batch: a row's parts are always
// joined one after another in that order, so its result never depends on how the work was cut. A task owns
// some heads of some tokens of one sequence. It joins its parts as it goes (long prompts, many sequences),
// or, where that would leave threads idle, it does one part and leaves it to be joined by the token's
// join (few decoding sequences with long contexts).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/execution/device/step_layout.h"

namespace numoe::execution {

/// Positions of one part: long enough that joining costs little (a pass over a row's output), short enough
/// that packed keys and values of GQA stay in a second-level cache (256 KB at 128 channels).
inline constexpr int kPartKeys = 512;
/// Rows (heads of tokens) that share one pass over a packed part, so that scores stay in cache; a multiple of
/// the matrix kernels' blocks of six.
inline constexpr int kGroupRows = 96;

/// Rows of a task at most: packing a part then costs a few percent of multiplying it.
inline constexpr int kTaskRowsMax = 512;

struct AttendShape {
  int heads = 0;
  int kv_heads = 1;
  int threads = 1;
  int tasks_per_thread = 4;  // so that uneven ones balance
  int task_rows_max = kTaskRowsMax;
};

/// Tokens [begin, end) of one sequence in the step.
struct TokenRun {
  int begin = 0;
  int end = 0;
  int tokens() const { return end - begin; }
};
/// REQUIRES: a sequence's tokens lie beside each other, by position.
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
  int scattered_parts = 0;  // 0: joins as it goes; otherwise the parts that the tokens' rows have room for
  int64_t scattered = 0;    // row of the first token's first head's first part: [token][head][part]

  int rows() const { return (token_end - token_begin) * (head_end - head_begin); }
};

/// A token whose parts were scattered: [head][part] from row `scattered` on.
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

/// Of some of the step's runs. REQUIRES: shape.heads % shape.kv_heads == 0.
AttendPlan PlanAttend(const StepLayout& layout, const std::vector<TokenRun>& runs, const AttendShape& shape);

/// For logs and test failures.
std::string Describe(const AttendPlan& plan);

}  // namespace numoe::execution
