// Matrix products of the CPU device: tasks are runs of whole panels, so every output has one owner.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "common/base/check.h"
#include "common/kernels/layout.h"
#include "coordinator/device/cpu/cpu_device.h"

namespace numoe {
namespace {

// Weights of one task: enough to stream, few enough that threads finish together.
constexpr size_t kTaskBytes = 256 << 10;

// Outputs of one task.
int TaskRows(const PackedMatrix& weight, size_t bytes) {
  const size_t panel = layout::PanelBytes(weight.format, weight.cols);
  return static_cast<int>(std::max<size_t>(1, bytes / panel)) * kPanelRows;
}

float* Reserve(std::vector<float>& values, size_t count) {
  if (values.size() < count) values.resize(count);
  return values.data();
}

}  // namespace

InputRows CpuDevice::InputsIn(ActivationForm form, Tensor in) {
  // Whole steps of kFp32 are the tensor's own rows.
  if (form == ActivationForm::kFloat || (form == ActivationForm::kFp32 && in.cols % layout::kStepCols == 0)) {
    return {form, reinterpret_cast<const std::byte*>(Row(in, 0)),
            static_cast<size_t>(in.cols) * sizeof(float), rows_};
  }
  const size_t stride = rounded::RowBytes(form, in.cols);
  std::vector<std::byte>& rows = rounded_[static_cast<size_t>(form)];
  bool& done = rounded_now_[static_cast<size_t>(form)];
  if (!done) {
    if (rows.size() < static_cast<size_t>(rows_) * stride) rows.resize(static_cast<size_t>(rows_) * stride);
    ForTokens(
        [&](int t) { RoundRow(isa_, form, Row(in, t), in.cols, &rows[static_cast<size_t>(t) * stride]); });
    done = true;
  }
  return {form, rows.data(), stride, rows_};
}

void CpuDevice::Linear(Tensor in, absl::Span<const LinearTarget> targets) {
  struct Part {
    const LinearTarget* target;
    const PackedMatrix* weight;
    InputRows x;
    int task_rows;
    int tasks_end;  // of all parts up to this one
  };
  absl::InlinedVector<Part, 4> parts;
  rounded_now_ = {};
  int tasks = 0;
  for (const LinearTarget& target : targets) {
    const PackedMatrix& weight = matrices_[static_cast<size_t>(target.matrix.id)].packed;
    NUMOE_CHECK_EQ(weight.cols, in.cols);
    NUMOE_CHECK_LE(target.out.offset + weight.rows, target.out.tensor.cols);
    const int task_rows = TaskRows(weight, kTaskBytes);
    tasks += (weight.rows + task_rows - 1) / task_rows;
    parts.push_back({&target, &weight, InputsIn(FormFor(weight.format), in), task_rows, tasks});
  }
  pool_.Run(tasks, [&](int task, int thread) {
    size_t p = 0;
    while (task >= parts[p].tasks_end) ++p;
    const Part& part = parts[p];
    const int begin = (task - (p == 0 ? 0 : parts[p - 1].tasks_end)) * part.task_rows;
    RunLinear(*part.weight, begin, std::min(begin + part.task_rows, part.weight->rows), part.x, *part.target,
              thread);
  });
}

void CpuDevice::RunLinear(const PackedMatrix& weight, int row_begin, int row_end, const InputRows& x,
                          const LinearTarget& target, int thread) {
  const int width = row_end - row_begin;
  float* y = Window(target.out, 0, 0) + row_begin;
  int64_t stride = target.out.tensor.cols;
  if (target.accumulate) {
    stride = width;
    y = Reserve(thread_sums_[static_cast<size_t>(thread)],
                static_cast<size_t>(rows_) * static_cast<size_t>(width));
  }
  Multiply(isa_, {.weight = weight,
                  .row_begin = row_begin,
                  .row_end = row_end,
                  .x = x,
                  .y = y,
                  .y_stride = stride,
                  .exact = StepPrecision() != Precision::kFast});
  for (int t = 0; target.accumulate && t < rows_; ++t, y += width) {
    float* row = Window(target.out, t, 0) + row_begin;
    for (int o = 0; o < width; ++o) row[o] += y[o];
  }
}

void CpuDevice::GatedLinear(Tensor in, const GatedMatrix& matrices, Tensor out) {
  const auto& [gate, up] = gated_[static_cast<size_t>(matrices.id)];
  const PackedMatrix& gate_weight = matrices_[static_cast<size_t>(gate.id)].packed;
  const PackedMatrix& up_weight = matrices_[static_cast<size_t>(up.id)].packed;
  NUMOE_CHECK(gate.cols == in.cols && up.cols == in.cols && gate.rows == out.cols && up.rows == out.cols);
  rounded_now_ = {};
  const InputRows gate_x = InputsIn(FormFor(gate_weight.format), in);
  const InputRows up_x = InputsIn(FormFor(up_weight.format), in);
  const int task_rows = TaskRows(gate_weight, kTaskBytes / 2);
  pool_.Run((gate.rows + task_rows - 1) / task_rows, [&](int task, int thread) {
    const int begin = task * task_rows;
    const int width = std::min(begin + task_rows, gate.rows) - begin;
    const size_t values = static_cast<size_t>(rows_) * static_cast<size_t>(width);
    float* gated = Reserve(thread_sums_[static_cast<size_t>(thread)], 2 * values);
    const bool exact = StepPrecision() != Precision::kFast;
    Multiply(isa_, {.weight = gate_weight,
                    .row_begin = begin,
                    .row_end = begin + width,
                    .x = gate_x,
                    .y = gated,
                    .y_stride = width,
                    .exact = exact,
                    .next = up_weight.data + static_cast<size_t>(begin / kPanelRows) *
                                                 layout::PanelBytes(up_weight.format, up_weight.cols)});
    Multiply(isa_, {.weight = up_weight,
                    .row_begin = begin,
                    .row_end = begin + width,
                    .x = up_x,
                    .y = gated + values,
                    .y_stride = width,
                    .exact = exact});
    SwiGlu(isa_, gated, gated + values, static_cast<int64_t>(values));
    for (int t = 0; t < rows_; ++t, gated += width) std::copy_n(gated, width, Row(out, t) + begin);
  });
}

}  // namespace numoe
