#include "coordinator/execution/device/cpu/cpu_linear.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "common/base/check.h"
#include "common/kernels/layout.h"
#include "coordinator/execution/device/cpu/cpu_tasks.h"

namespace numoe::execution {
namespace {

// The most bytes of weights of one task: enough for efficient streaming.
constexpr CutLimits kTaskBytes{.task_cost_max = 256 << 10};
// The number of rows that are multiplied by a gate's panel together.
constexpr int kGateRows = 64;

}  // namespace

class CpuLinear::Inputs {
 public:
  Inputs(CpuLinear& linear, const FloatRows& in) : linear_(linear), in_(in) {}

  QuantisedRows In(ActivationFormat format) {
    if (IsPlainFp32(format, in_.cols)) return PlainRows(format, in_.data, in_.cols, in_.count);
    std::vector<std::byte>& bytes = linear_.inputs_[static_cast<size_t>(format)];
    QuantisedMemory rows{.format = format, .cols = in_.cols, .count = in_.count};
    bool& made = made_[static_cast<size_t>(format)];
    if (!made && bytes.size() < rows.bytes()) bytes.resize(rows.bytes());
    rows.data = bytes.data();
    if (!made)
      ForRows(linear_.pool_, {0, in_.count}, [&](int r) { rows.Write(linear_.isa_, r, in_.row(r)); });
    made = true;
    return rows.rows();
  }
  QuantisedRows For(const PackedMatrix& weight, Precision precision) {
    NUMOE_CHECK_EQ(weight.cols, in_.cols);
    return In(ChooseActivationFormat(linear_.isa_, weight.format, in_.count, precision));
  }

 private:
  CpuLinear& linear_;
  const FloatRows in_;
  std::array<bool, kActivationFormats> made_ = {};
};

CpuLinear::CpuLinear(Isa isa, ThreadPool& pool)
    : isa_(isa), pool_(pool), sums_(static_cast<size_t>(pool.threads())) {}

float* CpuLinear::Sums(int thread, size_t count) {
  std::vector<float>& sums = sums_[static_cast<size_t>(thread)];
  if (sums.size() < count) sums.resize(count);
  return sums.data();
}

// Appends tasks for `rows` outputs whose panels have `panel_bytes` bytes each.
void CpuLinear::CutTasks(int product, int rows, size_t panel_bytes, RowCutter& cutter) {
  for (int begin = 0; begin < rows;) {
    const int end = cutter.NextEnd(begin, rows, {.cost = panel_bytes});
    tasks_.push_back({product, begin, end});
    begin = end;
  }
}

void CpuLinear::Multiply(const FloatRows& in, absl::Span<const Product> products, Precision precision) {
  Inputs inputs(*this, in);
  absl::InlinedVector<QuantisedRows, 4> x;
  size_t bytes = 0;
  for (const Product& product : products) {
    bytes += MatrixBytes(*product.weight);
    x.push_back(inputs.For(*product.weight, precision));
  }
  tasks_.clear();
  RowCutter cutter(kTaskBytes, bytes, pool_.threads());
  for (size_t p = 0; p < products.size(); ++p) {
    const PackedMatrix& weight = *products[p].weight;
    CutTasks(static_cast<int>(p), weight.rows, PanelBytes(weight), cutter);
  }
  pool_.Run(static_cast<int>(tasks_.size()), [&](int index, int thread) {
    const Task& task = tasks_[static_cast<size_t>(index)];
    const auto product = static_cast<size_t>(task.product);
    RunTask(task, products[product], x[product], thread);
  });
}

void CpuLinear::RunTask(const Task& task, const Product& product, const QuantisedRows& x, int thread) {
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
  const QuantisedRows gate_x = inputs.For(gate, precision);
  const QuantisedRows up_x = inputs.For(up, precision);
  RowCutter cutter(kTaskBytes, MatrixBytes(gate) + MatrixBytes(up), pool_.threads());
  tasks_.clear();
  CutTasks(0, gate.rows, PanelBytes(gate) + PanelBytes(up), cutter);
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
                           .next = PanelAt(up, begin)});
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
  // Among the forms for products with BF16 weights only kFp32 and kFloat keep the activations exact.
  const ActivationFormat fast = ChooseActivationFormat(isa_, WeightFormat::kBf16, in.count, Precision::kBf16);
  Inputs inputs(*this, in);
  const QuantisedRows all =
      inputs.In(fast == ActivationFormat::kFp32 ? ActivationFormat::kFp32 : ActivationFormat::kFloat);
  const int experts = weight.rows, panels = TasksFor(experts, kPanelRows);
  pool_.Run(panels * TasksFor(in.count, kGateRows), [&](int task, int) {
    const int first = task / panels * kGateRows;
    const int begin = task % panels * kPanelRows;
    const QuantisedRows x = all.From(first, std::min(kGateRows, in.count - first));
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
    const ActivationFormat format = ChooseActivationFormat(isa_, weight.format, run.tokens(), precision);
    QuantisedMemory x{.format = format, .cols = weight.cols, .count = run.tokens()};
    x.data = reinterpret_cast<std::byte*>(Sums(thread, x.bytes() / sizeof(float)));
    for (int row = 0; row < x.count; ++row) x.Write(isa_, row, in.at(run.begin + row, h));
    numoe::Multiply(isa_, {.weight = weight,
                           .row_end = weight.rows,
                           .x = x.rows(),
                           .y = out.at(run.begin, h),
                           .y_stride = out.row_stride});
  });
}

}  // namespace numoe::execution
