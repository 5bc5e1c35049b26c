// CpuLinear: the CPU device's products of activations with packed weights.
//
// An input is converted into the activation format in which the kernels of this CPU multiply a weight format,
// once for all matrices of a call that need the same format. Work is divided into runs of whole panels of
// outputs, so each output is computed by one task and no result depends on the division. Keeps scratch that
// grows to the largest call. One thread, the engine's; uses the pool.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "common/kernels/kernels.h"
#include "common/linear/quantised_product.h"
#include "common/linear/quantised_rows.h"
#include "common/linear/row_cutter.h"
#include "common/threading/thread_pool.h"
#include "coordinator/execution/device/cpu/attend_plan.h"

namespace numoe::execution {

/// Contiguous rows of fp32 values.
struct FloatRows {
  const float* data = nullptr;  // [count, cols]
  int count = 0;
  int cols = 0;

  const float* row(int r) const { return data + int64_t{r} * cols; }
};

/// Where the outputs of some rows are written: those of row r begin at data + r * stride.
struct FloatTarget {
  float* data = nullptr;
  int64_t stride = 0;

  float* row(int r) const { return data + int64_t{r} * stride; }
};

/// `heads` windows of every row: window h of row r begins at data + r * row_stride + h * stride.
template <typename T>
struct HeadRows {
  T* data = nullptr;
  int64_t row_stride = 0;
  int64_t stride = 0;

  T* at(int row, int head) const { return data + int64_t{row} * row_stride + int64_t{head} * stride; }
};

class CpuLinear {
 public:
  struct Product {
    const PackedMatrix* weight = nullptr;
    FloatTarget out;          // [rows, weight->rows]
    bool accumulate = false;  // out += instead of out =
  };

  CpuLinear(Isa isa, ThreadPool& pool);

  /// Computes out = weight * in for each product.
  void Multiply(const FloatRows& in, absl::Span<const Product> products, Precision precision);
  /// out = silu(gate * in) * (up * in).
  void MultiplyGated(const FloatRows& in, const PackedMatrix& gate, const PackedMatrix& up,
                     const FloatTarget& out, Precision precision);
  /// out = weight * in with fp32 activations, regardless of the step's precision: the selection of a token's
  /// experts must not depend on rounding. `out` is [in.count, weight.rows].
  void MultiplyGate(const FloatRows& in, const PackedMatrix& weight, float* out);
  /// out[row, h] = heads[h] * in[row, h], for the rows of `runs`.
  void MultiplyHeads(absl::Span<const PackedMatrix> heads, absl::Span<const TokenRun> runs,
                     const HeadRows<const float>& in, const HeadRows<float>& out, Precision precision);

 private:
  /// Outputs [row_begin, row_end) of one of a call's matrices, in whole panels.
  struct Task {
    int product = 0;
    int row_begin = 0;
    int row_end = 0;
  };
  /// One input in the activation formats that a call has needed so far.
  class Inputs;
  void CutTasks(int product, int rows, size_t panel_bytes, RowCutter& cutter);
  void RunTask(const Task& task, const Product& product, const QuantisedRows& x, int thread);
  float* Sums(int thread, size_t count);

  const Isa isa_;
  ThreadPool& pool_;
  std::array<std::vector<std::byte>, kActivationFormats> inputs_;  // by ActivationFormat
  std::vector<Task> tasks_;
  std::vector<std::vector<float>> sums_;  // [threads] a task's outputs before they are added to the target
};

}  // namespace numoe::execution
