#include "coordinator/device/cpu/cpu_linear.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "common/base/check.h"
#include "common/kernels/layout.h"
#include "coordinator/device/cpu/cpu_tasks.h"

namespace numoe {
namespace {

// Weights of one task at most: enough to stream.
constexpr size_t kTaskBytes = 256 << 10;
// A task is at most such a part of what is left for each thread: the last ones are single panels, and threads
// finish together.
constexpr size_t kPartOfLeft = 2;
// Rows that a gate's panel is multiplied by together.
constexpr int kGateRows = 64;

size_t PanelBytes(const PackedMatrix& weight) { return layout::PanelBytes(weight.format, weight.cols); }
size_t BytesOf(const PackedMatrix& weight) {
  return PanelBytes(weight) * static_cast<size_t>(layout::Panels(weight.rows));
}

}  // namespace

class CpuLinear::Inputs {
 public:
  Inputs(CpuLinear& linear, const FloatRows& in) : linear_(linear), in_(in) {}

  InputRows In(ActivationForm form) {
    // Rows of whole kFp32 steps are the tensor's own.
    if (form == ActivationForm::kFloat ||
        (form == ActivationForm::kFp32 && in_.cols % layout::kStepCols == 0)) {
      return {form, reinterpret_cast<const std::byte*>(in_.data),
              static_cast<size_t>(in_.cols) * sizeof(float), in_.count};
    }
    const size_t stride = rounded::RowBytes(form, in_.cols);
    std::vector<std::byte>& rows = linear_.inputs_[static_cast<size_t>(form)];
    bool& made = made_[static_cast<size_t>(form)];
    if (!made) {
      const size_t bytes = static_cast<size_t>(in_.count) * stride;
      if (rows.size() < bytes) rows.resize(bytes);
      ForRows(linear_.pool_, {0, in_.count}, [&](int r) {
        RoundRow(linear_.isa_, form, in_.row(r), in_.cols, &rows[static_cast<size_t>(r) * stride]);
      });
      made = true;
    }
    return {form, rows.data(), stride, in_.count};
  }
  InputRows For(const PackedMatrix& weight, Precision precision) {
    NUMOE_CHECK_EQ(weight.cols, in_.cols);
    return In(ChooseForm(linear_.isa_, weight.format, in_.count, precision));
  }

 private:
  CpuLinear& linear_;
  const FloatRows in_;
  std::array<bool, kActivationForms> made_ = {};
};

CpuLinear::CpuLinear(Isa isa, ThreadPool& pool)
    : isa_(isa), pool_(pool), sums_(static_cast<size_t>(pool.threads())) {}

float* CpuLinear::Sums(int thread, size_t count) {
  std::vector<float>& sums = sums_[static_cast<size_t>(thread)];
  if (sums.size() < count) sums.resize(count);
  return sums.data();
}

// Appends tasks for `rows` outputs whose panels have `panel_bytes` each; `left` counts the bytes of
// everything that is not cut yet.
void CpuLinear::CutRows(int product, int rows, size_t panel_bytes, size_t& left) {
  for (int begin = 0; begin < rows;) {
    const size_t bytes = std::min(kTaskBytes, left / (kPartOfLeft * static_cast<size_t>(pool_.threads())));
    const int panels = static_cast<int>(std::max<size_t>(1, bytes / panel_bytes));
    const int end = std::min(rows, begin + panels * kPanelRows);
    tasks_.push_back({product, begin, end});
    left -= std::min(left, static_cast<size_t>(layout::Panels(end - begin)) * panel_bytes);
    begin = end;
  }
}

void CpuLinear::Multiply(const FloatRows& in, absl::Span<const Product> products, Precision precision) {
  Inputs inputs(*this, in);
  absl::InlinedVector<InputRows, 4> x;
  size_t left = 0;
  for (const Product& product : products) {
    left += BytesOf(*product.weight);
    x.push_back(inputs.For(*product.weight, precision));
  }
  tasks_.clear();
  for (size_t p = 0; p < products.size(); ++p) {
    const PackedMatrix& weight = *products[p].weight;
    CutRows(static_cast<int>(p), weight.rows, PanelBytes(weight), left);
  }
  NUMOE_CHECK_EQ(left, 0u);
  pool_.Run(static_cast<int>(tasks_.size()), [&](int index, int thread) {
    const Task& task = tasks_[static_cast<size_t>(index)];
    const auto product = static_cast<size_t>(task.product);
    RunTask(task, products[product], x[product], thread);
  });
}

void CpuLinear::RunTask(const Task& task, const Product& product, const InputRows& x, int thread) {
  const int width = task.row_end - task.row_begin;
  NUMOE_DCHECK(width > 0 && task.row_end <= product.weight->rows);
  float* y = product.out.data + task.row_begin;
  int64_t stride = product.out.stride;
  if (product.accumulate) {
    stride = width;
    y = Sums(thread, static_cast<size_t>(x.count) * static_cast<size_t>(width));
  }
  numoe::Multiply(isa_, {.weight = *product.weight,
                         .row_begin = task.row_begin,
                         .row_end = task.row_end,
                         .x = x,
                         .y = y,
                         .y_stride = stride});
  for (int t = 0; product.accumulate && t < x.count; ++t, y += width) {
    float* row = product.out.row(t) + task.row_begin;
    for (int o = 0; o < width; ++o) row[o] += y[o];
  }
}

void CpuLinear::MultiplyGated(const FloatRows& in, const PackedMatrix& gate, const PackedMatrix& up,
                              const FloatTarget& out, Precision precision) {
  NUMOE_CHECK_EQ(gate.rows, up.rows);
  Inputs inputs(*this, in);
  const InputRows gate_x = inputs.For(gate, precision);
  const InputRows up_x = inputs.For(up, precision);
  size_t left = BytesOf(gate) + BytesOf(up);
  tasks_.clear();
  CutRows(0, gate.rows, PanelBytes(gate) + PanelBytes(up), left);
  NUMOE_CHECK_EQ(left, 0u);
  pool_.Run(static_cast<int>(tasks_.size()), [&](int index, int thread) {
    const Task& task = tasks_[static_cast<size_t>(index)];
    const int begin = task.row_begin, width = task.row_end - begin;
    const size_t values = static_cast<size_t>(in.count) * static_cast<size_t>(width);
    float* gated = Sums(thread, 2 * values);
    numoe::Multiply(isa_, {.weight = gate,
                           .row_begin = begin,
                           .row_end = task.row_end,
                           .x = gate_x,
                           .y = gated,
                           .y_stride = width,
                           .next = up.data + static_cast<size_t>(begin / kPanelRows) * PanelBytes(up)});
    numoe::Multiply(isa_, {.weight = up,
                           .row_begin = begin,
                           .row_end = task.row_end,
                           .x = up_x,
                           .y = gated + values,
                           .y_stride = width});
    SwiGlu(isa_, gated, gated + values, static_cast<int64_t>(values));
    for (int t = 0; t < in.count; ++t, gated += width) std::copy_n(gated, width, out.row(t) + begin);
  });
}

void CpuLinear::MultiplyGate(const FloatRows& in, const PackedMatrix& weight, float* out) {
  NUMOE_CHECK_EQ(weight.cols, in.cols);
  // Of the forms for products with BF16 only kFp32 and kFloat round nothing.
  const ActivationForm fast = ChooseForm(isa_, WeightFormat::kBf16, in.count, Precision::kBf16);
  Inputs inputs(*this, in);
  const InputRows all =
      inputs.In(fast == ActivationForm::kFp32 ? ActivationForm::kFp32 : ActivationForm::kFloat);
  const int experts = weight.rows, panels = TasksFor(experts, kPanelRows);
  pool_.Run(panels * TasksFor(in.count, kGateRows), [&](int task, int) {
    const int first = task / panels * kGateRows;
    const int begin = task % panels * kPanelRows;
    InputRows x = all;
    x.data += static_cast<size_t>(first) * x.stride;
    x.count = std::min(kGateRows, in.count - first);
    numoe::Multiply(isa_, {.weight = weight,
                           .row_begin = begin,
                           .row_end = std::min(begin + kPanelRows, experts),
                           .x = x,
                           .y = out + int64_t{first} * experts + begin,
                           .y_stride = experts});
  });
}

void CpuLinear::MultiplyHeads(absl::Span<const PackedMatrix> heads, absl::Span<const TokenRun> runs,
                              const HeadRows<const float>& in, const HeadRows<float>& out,
                              Precision precision) {
  pool_.Run(static_cast<int>(runs.size() * heads.size()), [&](int task, int thread) {
    const TokenRun& run = runs[static_cast<size_t>(task) / heads.size()];
    const int h = task % static_cast<int>(heads.size());
    const PackedMatrix& weight = heads[static_cast<size_t>(h)];
    const ActivationForm form = ChooseForm(isa_, weight.format, run.tokens(), precision);
    InputRows x{form, nullptr, rounded::RowBytes(form, weight.cols), run.tokens()};
    auto* row =
        reinterpret_cast<std::byte*>(Sums(thread, static_cast<size_t>(x.count) * x.stride / sizeof(float)));
    x.data = row;
    for (int t = run.begin; t < run.end; ++t, row += x.stride)
      StoreRow(isa_, form, in.at(t, h), weight.cols, row);
    numoe::Multiply(isa_, {.weight = weight,
                           .row_end = weight.rows,
                           .x = x,
                           .y = out.at(run.begin, h),
                           .y_stride = out.row_stride});
  });
}

}  // namespace numoe
