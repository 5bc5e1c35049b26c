// Matrix products of the CPU device: tasks are runs of whole panels, so every output has one owner.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "common/base/check.h"
#include "common/kernels/layout.h"
#include "coordinator/device/cpu/cpu_device.h"

namespace numoe {
namespace {

// Weights of one task at most: enough to stream.
constexpr size_t kTaskBytes = 256 << 10;
// A task is at most such a part of what is left for each thread: the last ones are single panels, and threads
// finish together.
constexpr size_t kPartOfLeft = 2;

size_t PanelBytes(const PackedMatrix& weight) { return layout::PanelBytes(weight.format, weight.cols); }
size_t BytesOf(const PackedMatrix& weight) {
  return PanelBytes(weight) * static_cast<size_t>(layout::Panels(weight.rows));
}

// Appends tasks of `rows` outputs whose panels have so many bytes; `left` are the bytes of all that is not
// cut yet.
void CutRows(int part, int rows, size_t panel_bytes, int threads, size_t& left,
             std::vector<LinearTask>& tasks) {
  for (int begin = 0; begin < rows;) {
    const size_t bytes = std::min(kTaskBytes, left / (kPartOfLeft * static_cast<size_t>(threads)));
    const int panels = static_cast<int>(std::max<size_t>(1, bytes / panel_bytes));
    const int end = std::min(rows, begin + panels * kPanelRows);
    tasks.push_back({part, begin, end});
    left -= std::min(left, static_cast<size_t>(layout::Panels(end - begin)) * panel_bytes);
    begin = end;
  }
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
  };
  absl::InlinedVector<Part, 4> parts;
  rounded_now_ = {};
  size_t left = 0;
  for (const LinearTarget& target : targets) {
    const PackedMatrix& weight = matrices_[static_cast<size_t>(target.matrix.id)].packed;
    NUMOE_CHECK_EQ(weight.cols, in.cols);
    NUMOE_CHECK_LE(target.out.offset + weight.rows, target.out.tensor.cols);
    left += BytesOf(weight);
    parts.push_back({&target, &weight, InputsIn(FormFor(weight.format), in)});
  }
  linear_tasks_.clear();
  for (size_t p = 0; p < parts.size(); ++p) {
    const PackedMatrix& weight = *parts[p].weight;
    CutRows(static_cast<int>(p), weight.rows, PanelBytes(weight), pool_.threads(), left, linear_tasks_);
  }
  pool_.Run(static_cast<int>(linear_tasks_.size()), [&](int index, int thread) {
    const LinearTask& task = linear_tasks_[static_cast<size_t>(index)];
    const Part& part = parts[static_cast<size_t>(task.part)];
    RunLinear(*part.weight, task.row_begin, task.row_end, part.x, *part.target, thread);
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
  Multiply(
      isa_,
      {.weight = weight, .row_begin = row_begin, .row_end = row_end, .x = x, .y = y, .y_stride = stride});
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
  size_t left = BytesOf(gate_weight) + BytesOf(up_weight);
  linear_tasks_.clear();
  CutRows(0, gate.rows, PanelBytes(gate_weight) + PanelBytes(up_weight), pool_.threads(), left,
          linear_tasks_);
  pool_.Run(static_cast<int>(linear_tasks_.size()), [&](int index, int thread) {
    const int begin = linear_tasks_[static_cast<size_t>(index)].row_begin;
    const int width = linear_tasks_[static_cast<size_t>(index)].row_end - begin;
    const size_t values = static_cast<size_t>(rows_) * static_cast<size_t>(width);
    float* gated = Reserve(thread_sums_[static_cast<size_t>(thread)], 2 * values);
    Multiply(isa_, {.weight = gate_weight,
                    .row_begin = begin,
                    .row_end = begin + width,
                    .x = gate_x,
                    .y = gated,
                    .y_stride = width,
                    .next = up_weight.data + static_cast<size_t>(begin / kPanelRows) *
                                                 layout::PanelBytes(up_weight.format, up_weight.cols)});
    Multiply(isa_, {.weight = up_weight,
                    .row_begin = begin,
                    .row_end = begin + width,
                    .x = up_x,
                    .y = gated + values,
                    .y_stride = width});
    SwiGlu(isa_, gated, gated + values, static_cast<int64_t>(values));
    for (int t = 0; t < rows_; ++t, gated += width) std::copy_n(gated, width, Row(out, t) + begin);
  });
}

}  // namespace numoe
