#include "expert_worker/experts/layer_call_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/base/check.h"
#include "common/linear/quantised_rows.h"
#include "common/linear/row_cutter.h"

namespace numoe::worker {
namespace {

// The most outputs of one task: enough that a task is worth claiming, few enough that their sums stay in the
// cache.
constexpr int kTaskRows = 4 * kPanelRows;
// The fewest weights of one task, as long as each thread has one: some microseconds of work.
constexpr size_t kTaskWeightsMin = 1 << 17;

// The number of experts that the pool's threads compute side by side when memory and arithmetic are both near
// their limits. Experts with many rows wait for arithmetic and experts with few rows wait for memory, so
// computing them together saves time. With more than kSideBySideRows rows for each expert, arithmetic alone
// is the limit, and an expert's rows are best read from one cache.
constexpr int kSideBySide = 4;
constexpr int kSideBySideRows = 16;

// The number of rows whose intermediate values are held at a time. It bounds the scratch of a long prefill
// (8192 tokens x 8 experts) to 4096 x (7168 + 2 x 2048) floats = 185 MB, and still gives each expert all its
// rows at once.
constexpr int kBatchRows = 4096;

// What one task quantises: this number of tokens and of columns (a microsecond or less each).
constexpr int kQuantiseTokens = 8;
constexpr int kQuantiseCols = 1024;
static_assert(kQuantiseCols % layout::kStepCols == 0);

// Checks what GroupTokens promises.
void CheckGroups(absl::Span<const ExpertGroup> groups, const LayerCallShape& shape) {
  NUMOE_CHECK(shape.tokens > 0 && shape.hidden_size > 0 && shape.width > 0 && shape.threads > 0);
  int rows = 0;
  ExpertId last = -1;
  for (const ExpertGroup& group : groups) {
    NUMOE_CHECK_LT(last, group.expert);
    NUMOE_CHECK_EQ(group.row_begin, rows);
    NUMOE_CHECK(0 < group.rows && group.rows <= shape.tokens) << group.rows << " rows";
    rows += group.rows;
    last = group.expert;
  }
}

// Returns the sum of the outputs of all tasks beginning with number `first`.
template <typename Task>
int64_t RowsFrom(const std::vector<Task>& tasks, int first) {
  int64_t rows = 0;
  for (size_t i = static_cast<size_t>(first); i < tasks.size(); ++i)
    rows += tasks[i].row_end - tasks[i].row_begin;
  return rows;
}

class Planner {
 public:
  Planner(const LayerCallShape& shape, LayerCallPlan& plan) : shape_(shape), plan_(plan) {}

  void Plan(absl::Span<const ExpertGroup> groups) {
    for (const ExpertGroup& group : groups) AddGroup(group);
    if (groups.empty()) return;
    AddQuantising();
    const int count = static_cast<int>(groups.size());
    for (int first = 0, last = 0; first < count; first = last) {
      int rows = 0;
      do {
        rows += groups[static_cast<size_t>(last++)].rows;
      } while (last < count && rows + groups[static_cast<size_t>(last)].rows <= kBatchRows);
      AddBatch(first, last, rows);
    }
  }

 private:
  // Each group's formats are chosen by its own number of rows.
  void AddGroup(const ExpertGroup& group) {
    const auto choose = [&](WeightFormat format) {
      return ChooseActivationFormat(shape_.isa, format, group.rows, shape_.precision);
    };
    GroupPlan& added = plan_.groups.emplace_back();
    added.group = group;
    added.x_format = choose(shape_.formats.up);
    added.h_format = choose(shape_.formats.down);
    if (!IsPlainFp32(added.x_format, shape_.hidden_size)) {
      plan_.quantised_bytes[static_cast<size_t>(added.x_format)] =
          QuantisedMemory::Bytes(added.x_format, shape_.hidden_size, shape_.tokens);
    }
  }

  void AddQuantising() {
    for (size_t f = 0; f < kActivationFormats; ++f) {
      if (plan_.quantised_bytes[f] == 0) continue;
      for (int token = 0; token < shape_.tokens; token += kQuantiseTokens) {
        for (int col = 0; col < shape_.hidden_size; col += kQuantiseCols) {
          plan_.quantise.push_back({.format = static_cast<ActivationFormat>(f),
                                    .token_begin = token,
                                    .token_end = std::min(token + kQuantiseTokens, shape_.tokens),
                                    .col_begin = col,
                                    .col_end = std::min(col + kQuantiseCols, shape_.hidden_size)});
        }
      }
    }
    AddPhase({.kind = LayerPhase::Kind::kQuantise}, plan_.quantise.size());
  }

  void AddBatch(int first, int last, int rows) {
    LayerPhase phase{.kind = LayerPhase::Kind::kGather,
                     .first_task = static_cast<int>(plan_.gather.size()),
                     .group_begin = first,
                     .group_end = last};
    PlaceRows(first, last);
    AddPhase(phase, plan_.gather.size());
    phase.kind = LayerPhase::Kind::kGateAndUp;
    phase.first_task = static_cast<int>(plan_.gate_and_up.size());
    CutGateAndUp(first, last, rows);
    NUMOE_DCHECK(RowsFrom(plan_.gate_and_up, phase.first_task) == int64_t{last - first} * shape_.width);
    AddPhase(phase, plan_.gate_and_up.size());
    phase.kind = LayerPhase::Kind::kDown;
    phase.first_task = static_cast<int>(plan_.down.size());
    CutDown(last - first);
    NUMOE_DCHECK(RowsFrom(plan_.down, phase.first_task) == shape_.hidden_size);
    AddPhase(phase, plan_.down.size());
  }

  void AddPhase(const LayerPhase& phase, size_t tasks_end) {
    plan_.phases.push_back(phase);
    plan_.phase_tasks.push_back(static_cast<int>(tasks_end) - phase.first_task);
  }

  // Assigns the rows of a batch their places in the scratch.
  void PlaceRows(int first, int last) {
    size_t x_bytes = 0, h_bytes = 0;
    for (int g = first; g < last; ++g) {
      GroupPlan& group = plan_.groups[static_cast<size_t>(g)];
      group.h_offset = h_bytes;
      h_bytes += QuantisedMemory::Bytes(group.h_format, shape_.width, group.group.rows);
      if (!group.gathered()) continue;
      group.x_offset = x_bytes;
      x_bytes += QuantisedMemory::Bytes(group.x_format, shape_.hidden_size, group.group.rows);
      plan_.gather.push_back(g);
    }
    plan_.gathered_bytes = std::max(plan_.gathered_bytes, x_bytes);
    plan_.intermediate_bytes = std::max(plan_.intermediate_bytes, h_bytes);
  }

  // Returns the batch's groups in the order in which they are computed side by side: the one with the most
  // rows, the one with the fewest, the second most, and so on. So neighbouring groups together need memory
  // and arithmetic in about the proportion of the whole batch.
  std::vector<int> SideBySideOrder(int first, int last) const {
    std::vector<int> by_rows(static_cast<size_t>(last - first));
    std::iota(by_rows.begin(), by_rows.end(), first);
    const auto rows = [&](int g) { return plan_.groups[static_cast<size_t>(g)].group.rows; };
    std::stable_sort(by_rows.begin(), by_rows.end(), [&](int a, int b) { return rows(a) > rows(b); });
    std::vector<int> order(by_rows.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = by_rows[i % 2 == 0 ? i / 2 : order.size() - 1 - i / 2];
    return order;
  }

  void CutGateAndUp(int first, int last, int rows) {
    const int groups = last - first;
    // Down reads whole steps of what these tasks write.
    const CutUnit unit{.rows = layout::kStepCols,
                       .cost = WeightsOf(layout::kStepCols, 2 * shape_.hidden_size)};
    const int units = layout::Steps(shape_.width);
    RowCutter cutter = CutterOf(unit, groups * units);
    if (rows == groups || rows > kSideBySideRows * groups) {
      for (int group = first; group < last; ++group) AddByTurns(absl::MakeConstSpan(&group, 1), unit, cutter);
      return;
    }
    const std::vector<int> order = SideBySideOrder(first, last);
    for (size_t at = 0; at < order.size(); at += kSideBySide)
      AddByTurns(absl::MakeConstSpan(order).subspan(at, kSideBySide), unit, cutter);
  }

  // Adds the tasks of groups that are computed side by side: one task of each group, then the next of each.
  void AddByTurns(absl::Span<const int> beside, const CutUnit& unit, RowCutter& cutter) {
    std::array<int, kSideBySide> cut = {};  // outputs that already have a task
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < beside.size(); ++i) {
        if (cut[i] == shape_.width) continue;
        const int end = cutter.NextEnd(cut[i], shape_.width, unit);
        plan_.gate_and_up.push_back({.group = beside[i], .row_begin = cut[i], .row_end = end});
        cut[i] = end;
        more = true;
      }
    }
  }

  // Adds tasks for some outputs of all groups of the batch.
  void CutDown(int groups) {
    const CutUnit unit{.rows = kPanelRows, .cost = WeightsOf(kPanelRows, groups * shape_.width)};
    RowCutter cutter = CutterOf(unit, layout::Panels(shape_.hidden_size));
    for (int begin = 0; begin < shape_.hidden_size;) {
      const int end = cutter.NextEnd(begin, shape_.hidden_size, unit);
      plan_.down.push_back({begin, end});
      begin = end;
    }
  }

  static size_t WeightsOf(int rows, int cols) {
    return static_cast<size_t>(rows) * static_cast<size_t>(cols);
  }

  RowCutter CutterOf(const CutUnit& unit, int units) const {
    return {{.task_cost_max = static_cast<size_t>(kTaskRows / unit.rows) * unit.cost,
             .task_cost_min = kTaskWeightsMin},
            static_cast<size_t>(units) * unit.cost,
            shape_.threads};
  }

  const LayerCallShape& shape_;
  LayerCallPlan& plan_;
};

void Clear(LayerCallPlan& plan) {
  plan.groups.clear();
  plan.quantise.clear();
  plan.gather.clear();
  plan.gate_and_up.clear();
  plan.down.clear();
  plan.phases.clear();
  plan.phase_tasks.clear();
  plan.quantised_bytes = {};
  plan.gathered_bytes = plan.intermediate_bytes = 0;
}

const char* NameOf(LayerPhase::Kind kind) {
  constexpr std::array<const char*, 4> kNames = {"quantise", "gather", "gate and up", "down"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

void PlanLayerCall(absl::Span<const ExpertGroup> groups, const LayerCallShape& shape, LayerCallPlan& plan) {
  CheckGroups(groups, shape);
  Clear(plan);
  Planner(shape, plan).Plan(groups);
}

std::string LayerCallPlan::ToString() const {
  std::string text = fmt::format("{} groups, {} bytes gathered, {} intermediate", groups.size(),
                                 gathered_bytes, intermediate_bytes);
  for (size_t f = 0; f < kActivationFormats; ++f)
    if (quantised_bytes[f] > 0) text += fmt::format(", {} quantised in format {}", quantised_bytes[f], f);
  for (const GroupPlan& g : groups) {
    text += fmt::format("\nexpert {}: {} rows from row {}, formats {} and {}, at {} and {}", g.group.expert,
                        g.group.rows, g.group.row_begin, static_cast<int>(g.x_format),
                        static_cast<int>(g.h_format), g.x_offset, g.h_offset);
  }
  for (size_t p = 0; p < phases.size(); ++p) {
    const LayerPhase& phase = phases[p];
    text += fmt::format("\n{}, {} tasks, groups {} to {}:", NameOf(phase.kind), phase_tasks[p],
                        phase.group_begin, phase.group_end);
    for (int t = phase.first_task; t < phase.first_task + phase_tasks[p]; ++t) {
      const auto task = static_cast<size_t>(t);
      switch (phase.kind) {
        case LayerPhase::Kind::kQuantise:
          text += fmt::format(" {}:[{},{})x[{},{})", static_cast<int>(quantise[task].format),
                              quantise[task].token_begin, quantise[task].token_end, quantise[task].col_begin,
                              quantise[task].col_end);
          break;
        case LayerPhase::Kind::kGather:
          text += fmt::format(" {}", gather[task]);
          break;
        case LayerPhase::Kind::kGateAndUp:
          text += fmt::format(" {}:[{},{})", gate_and_up[task].group, gate_and_up[task].row_begin,
                              gate_and_up[task].row_end);
          break;
        case LayerPhase::Kind::kDown:
          text += fmt::format(" [{},{})", down[task].row_begin, down[task].row_end);
          break;
      }
    }
  }
  return text;
}

}  // namespace numoe::worker
