#include "expert_worker/experts/expert_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/kernels/layout.h"
#include "common/threading/thread_binding.h"
#include "common/threading/thread_pool.h"
#include "common/topology/topology.h"
#include "common/transport/transport_limits.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/experts/memory_place.h"
#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/experts/weight_places.h"
#include "expert_worker/experts/worker_home.h"
#include "expert_worker/grouping/token_groups.h"

namespace numoe {
namespace {

// Outputs of one task at most: enough of them that a task is worth claiming.
constexpr int kTaskRows = 4 * kPanelRows;
// Fewer where there would be less than so many tasks for each thread - the last ones would end alone; one for
// each thread where tasks would meet less weights than these, some microseconds' work.
constexpr int kTasksPerThread = 4;
constexpr int64_t kTaskWeights = 1 << 17;

// Experts that share the pool where memory and arithmetic are both near their limits: some have many rows
// and wait for the one, some few and wait for the other, and time is lost unless they run side by side. Above
// so many rows each, arithmetic alone is the limit, and an expert's rows are best met from one cache.
constexpr int kSideBySide = 4;
constexpr int kSideBySideRows = 16;

// How the outputs of a matrix are cut.
struct Cut {
  int rows;   // of one task
  int tasks;  // of one matrix
};
// `unit`: what rows must be a multiple of; `matrices`: cut like this at a time; `row_weights`: that a task
// meets for one output.
Cut CutRows(int rows, int unit, int matrices, int64_t row_weights, int threads) {
  Cut cut{.rows = kTaskRows, .tasks = 0};
  const auto tasks = [&] { return (rows + cut.rows - 1) / cut.rows; };
  const auto wanted = [&] {
    return cut.rows / 2 * row_weights < kTaskWeights ? threads : kTasksPerThread * threads;
  };
  while (cut.rows > unit && matrices * tasks() < wanted()) cut.rows /= 2;
  cut.tasks = tasks();
  return cut;
}

std::string Percent(std::optional<double> share) {
  return share.has_value() ? fmt::format("{:.0f}%", 100 * *share) : "unknown share";
}

// Rows whose intermediate values are held at a time: bounds the scratch of a long prefill (8192 tokens x 8
// experts) to 4096 x (7168 + 2 x 2048) floats = 185 MB, and still gives each expert all its rows at once.
constexpr int kBatchRows = 4096;

// What one task rounds: of so many tokens, so many columns (a microsecond or less each).
constexpr int kRoundTokens = 8;
constexpr int kRoundCols = 1024;

// Fills a slice by the pool's threads, on the nodes of the placement.
using SliceSource = std::function<absl::StatusOr<ExpertSlice>(ThreadPool&, const Placement&)>;

class SliceExecutor final : public ExpertExecutor {
 public:
  SliceExecutor(Placement placement, Isa isa, Precision precision)
      : placement_(std::move(placement)),
        isa_(isa),
        precision_(precision),
        pool_({.name = "expert", .cpus = placement_.cpus}),
        callers_(OfLoneCaller(placement_.cpus), placement_.node_cpus),
        blocks_(static_cast<size_t>(pool_.threads())) {}

  absl::Status LoadWeights(const SliceSource& load, const ModelConfig& config, bool local_required) {
    const ScopedThreadBinding binding(
        placement_.cpus);  // this thread packs too, and pages land where it runs
    ASSIGN_OR_RETURN(slice_, load(pool_, placement_));
    statistics_.emplace(config.num_layers, config.num_experts);
    huge_page_share_ = HugePageShare(slice_.Spans());
    return CheckWhereTheyLie(slice_.Spans(), {.nodes = placement_.nodes, .required = local_required});
  }

  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    const auto begin = std::chrono::steady_clock::now();
    if (absl::Status status = Prepare(call, out); !status.ok()) {
      failed_calls_.fetch_add(1, std::memory_order_relaxed);
      return status;
    }
    const std::vector<ExpertGroup>& groups = groups_.groups;
    if (groups.empty()) std::fill(out.begin(), out.end(), 0.0f);
    for (size_t first = 0, last = 0; first < groups.size(); first = last) {
      int rows = 0;
      do {
        rows += groups[last++].rows;
      } while (last < groups.size() && rows + groups[last].rows <= kBatchRows);
      ComputeBatch(call, {.groups = absl::MakeConstSpan(groups).subspan(first, last - first), .rows = rows},
                   out);
    }
    const auto end = std::chrono::steady_clock::now();
    statistics_->Count(call.layer, call.tokens, groups, end - begin, end);
    weight_bytes_used_.fetch_add(groups.size() * slice_.ExpertBytes(call.layer), std::memory_order_relaxed);
    return absl::OkStatus();
  }

  const SliceSpec& slice() const override { return slice_.spec; }
  uint64_t WeightBytes() const override { return slice_.bytes; }
  std::string Describe() const override {
    return fmt::format(
        "slice {}/{} by {}, format {}, isa {}, {} thread{} ({}), {:.3f} GiB of weights ({} in huge pages, "
        "{} on its nodes), pinned {}",
        slice_.spec.worker_index, slice_.spec.worker_count,
        slice_.spec.mode == SliceMode::kExpert ? "expert" : "intermediate", slice_.format_names,
        IsaName(isa_), pool_.working(), pool_.working() == 1 ? "" : "s", placement_.why,
        static_cast<double>(slice_.bytes) / (1 << 30), Percent(huge_page_share_),
        Percent(LocalShare(slice_.Spans(), placement_.nodes)), IsPinned() ? "yes" : "no");
  }
  ExecutorStats Stats() const override {
    WeightPlaces::Shares shares = places_.Look(slice_.Spans(), placement_.nodes);
    return {.failed_calls = failed_calls_.load(),
            .weight_bytes = slice_.bytes,
            .weight_bytes_used = weight_bytes_used_.load(),
            .threads = pool_.working(),
            .pinned = IsPinned(),
            .nodes = placement_.nodes,
            .huge_page_share = huge_page_share_,
            .local_share = shares.local,
            .node_shares = std::move(shares.by_node)};
  }
  const ExpertStatistics& Statistics() const override { return *statistics_; }
  const ExpertSlice& Weights() const override { return slice_; }
  CallerThreads& Callers() override { return callers_; }
  void MoveTo(const std::vector<int>& cpus) override {
    pool_.MoveTo(cpus);
    callers_.MoveTo(OfLoneCaller(cpus));
  }

 private:
  // Where others compute on these CPUs too, the first one is theirs as well: every other has a thread.
  std::vector<int> OfLoneCaller(const std::vector<int>& cpus) const {
    return placement_.own ? std::vector<int>{cpus.front()} : placement_.node_cpus;
  }
  bool IsPinned() const { return pool_.apart() && pool_.bound() && callers_.bound(); }

  // Whole experts whose intermediate values fit the scratch together.
  struct Batch {
    absl::Span<const ExpertGroup> groups;
    int rows = 0;
    int row_begin() const { return groups.front().row_begin; }
  };
  // What the matrices of one group read: its tokens' rows in one form, and where they begin.
  struct Inputs {
    ActivationForm form = ActivationForm::kFloat;    // that gate and up want
    const std::byte* x = nullptr;                    // [rows of the group, hidden_size]
    size_t x_stride = 0;                             // bytes
    ActivationForm h_form = ActivationForm::kFloat;  // that down wants
    std::byte* h = nullptr;                          // [rows of the group, width], filled by GateAndUp
    size_t h_stride = 0;
  };

  absl::Status Prepare(const LayerCallView& call, absl::Span<float> out) {
    RETURN_IF_ERROR(CheckCall(call, out));
    return GroupTokens(call, slice_.owned, groups_);
  }

  // The stages of a batch, phases of one run of the pool.
  enum Phase { kRound, kGather, kGateAndUp, kDown, kPhases };

  void ComputeBatch(const LayerCallView& call, const Batch& batch, absl::Span<float> out) {
    PlanInputs(call, batch);
    const auto groups = static_cast<int>(batch.groups.size());
    std::array<int, kPhases> tasks = {};
    tasks[kRound] = RoundTasks(call);
    tasks[kGather] = batch.rows > groups ? groups : 0;
    tasks[kGateAndUp] = groups * gate_cut_.tasks;
    tasks[kDown] = down_cut_.tasks;
    pool_.RunPhases(tasks, [&](int phase, int task, int thread) {
      if (phase == kRound) RoundTokens(call, task);
      if (phase == kGather) Gather(call, batch, task);
      if (phase == kGateAndUp) GateAndUp(call, batch, task, thread);
      if (phase == kDown) Down(call, batch, out, task, thread);
    });
  }

  absl::Status CheckCall(const LayerCallView& call, absl::Span<float> out) const {
    const auto bad = [](const std::string& what) {
      return absl::InvalidArgumentError("layer call: " + what);
    };
    const int layers = static_cast<int>(slice_.layers.size());
    if (call.layer < 0 || call.layer >= layers || slice_.layers[call.layer].empty()) {
      return bad(
          fmt::format("layer {} is not one of the model's MoE layers (0 to {})", call.layer, layers - 1));
    }
    if (call.tokens < 1 || call.tokens > limits::kCallTokensMax) {
      return bad(fmt::format("{} tokens, expected 1 to {}", call.tokens, limits::kCallTokensMax));
    }
    if (call.experts_per_token < 1 || call.experts_per_token > limits::kExpertsPerTokenMax) {
      return bad(fmt::format("{} experts per token, expected 1 to {}", call.experts_per_token,
                             limits::kExpertsPerTokenMax));
    }
    const size_t values = static_cast<size_t>(call.tokens) * slice_.hidden_size;
    const size_t entries = static_cast<size_t>(call.tokens) * call.experts_per_token;
    if (call.hidden.size() != values || out.size() != values || call.experts.size() != entries ||
        call.weights.size() != entries) {
      return bad(fmt::format("{} hidden values, {} outputs, {} ids, {} weights; expected {}, {}, {}, {}",
                             call.hidden.size(), out.size(), call.experts.size(), call.weights.size(), values,
                             values, entries, entries));
    }
    return absl::OkStatus();
  }

  // Chooses each group's form by its own number of rows, lays out the scratch, and cuts the work into tasks.
  void PlanInputs(const LayerCallView& call, const Batch& batch) {
    inputs_.resize(batch.groups.size());
    rounded_forms_.clear();
    size_t x_bytes = 0, h_bytes = 0;
    const ExpertFormats& formats = slice_.formats[static_cast<size_t>(call.layer)];
    const Precision precision = call.exact && precision_ == Precision::kFast ? Precision::kBf16 : precision_;
    for (size_t g = 0; g < batch.groups.size(); ++g) {
      const auto rows = static_cast<size_t>(batch.groups[g].rows);
      Inputs& in = inputs_[g];
      in.form = ChooseForm(isa_, formats.up, batch.groups[g].rows, precision);
      in.h_form = ChooseForm(isa_, formats.down, batch.groups[g].rows, precision);
      in.x_stride = rounded::RowBytes(in.form, slice_.hidden_size);
      in.h_stride = rounded::RowBytes(in.h_form, slice_.width);
      if (rows > 1) x_bytes += rows * in.x_stride;
      h_bytes += rows * in.h_stride;
      UseForm(call, in.form);
    }
    gathered_.resize(std::max(gathered_.size(), x_bytes));
    intermediate_.resize(std::max(intermediate_.size(), h_bytes));
    x_bytes = h_bytes = 0;
    for (size_t g = 0; g < batch.groups.size(); ++g) {
      const auto rows = static_cast<size_t>(batch.groups[g].rows);
      inputs_[g].h = &intermediate_[h_bytes];
      h_bytes += rows * inputs_[g].h_stride;
      if (rows == 1) {  // reads its token's row where that lies
        inputs_[g].x = TokenRow(call, inputs_[g].form, groups_.tokens[batch.groups[g].row_begin]);
        continue;
      }
      inputs_[g].x = &gathered_[x_bytes];
      x_bytes += rows * inputs_[g].x_stride;
    }
    const int groups = static_cast<int>(batch.groups.size());
    // Down reads whole steps of what GateAndUp wrote, and each of its tasks meets all experts.
    gate_cut_ =
        CutRows(slice_.width, layout::kStepCols, groups, int64_t{2} * slice_.hidden_size, pool_.working());
    down_cut_ = CutRows(slice_.hidden_size, kPanelRows, 1, int64_t{groups} * slice_.width, pool_.working());
    OrderGroups(batch);
  }

  // The most rows, the fewest, the second most, ...: side by side they want as much of memory and of
  // arithmetic as all together.
  void OrderGroups(const Batch& batch) {
    const int groups = static_cast<int>(batch.groups.size());
    order_.resize(batch.groups.size());
    std::iota(order_.begin(), order_.end(), 0);
    side_by_side_ = batch.rows > groups && batch.rows <= kSideBySideRows * groups ? kSideBySide : 1;
    if (side_by_side_ == 1) return;
    by_rows_ = order_;
    std::stable_sort(by_rows_.begin(), by_rows_.end(),
                     [&](int a, int b) { return batch.groups[a].rows > batch.groups[b].rows; });
    for (int i = 0; i < groups; ++i) order_[i] = by_rows_[i % 2 == 0 ? i / 2 : groups - 1 - i / 2];
  }

  void UseForm(const LayerCallView& call, ActivationForm form) {
    if (form == ActivationForm::kFloat || std::count(rounded_forms_.begin(), rounded_forms_.end(), form) > 0)
      return;
    rounded_forms_.push_back(form);
    std::vector<std::byte>& rows = rounded_[static_cast<size_t>(form)];
    rows.resize(std::max(rows.size(),
                         static_cast<size_t>(call.tokens) * rounded::RowBytes(form, slice_.hidden_size)));
  }

  int RoundTasksPerForm(const LayerCallView& call) const {
    return (call.tokens + kRoundTokens - 1) / kRoundTokens *
           ((slice_.hidden_size + kRoundCols - 1) / kRoundCols);
  }
  int RoundTasks(const LayerCallView& call) const {
    return static_cast<int>(rounded_forms_.size()) * RoundTasksPerForm(call);
  }

  // A part of some tokens, for each form that some group wants.
  void RoundTokens(const LayerCallView& call, int task) {
    const int per_form = RoundTasksPerForm(call);
    const ActivationForm form = rounded_forms_[static_cast<size_t>(task / per_form)];
    const int parts = (slice_.hidden_size + kRoundCols - 1) / kRoundCols;
    const int first = task % per_form / parts * kRoundTokens;
    const int begin = task % parts * kRoundCols;
    const int cols = std::min(kRoundCols, slice_.hidden_size - begin);
    const auto hidden = static_cast<size_t>(slice_.hidden_size);
    const size_t stride = rounded::RowBytes(form, slice_.hidden_size);
    std::byte* rows = rounded_[static_cast<size_t>(form)].data() + rounded::RowBytes(form, begin);
    for (int t = first; t < std::min(first + kRoundTokens, call.tokens); ++t) {
      const auto token = static_cast<size_t>(t);
      RoundRow(isa_, form, &call.hidden[token * hidden] + begin, cols, &rows[token * stride]);
    }
  }

  const std::byte* TokenRow(const LayerCallView& call, ActivationForm form, size_t token) const {
    if (form != ActivationForm::kFloat)
      return &rounded_[static_cast<size_t>(form)][token * rounded::RowBytes(form, slice_.hidden_size)];
    return reinterpret_cast<const std::byte*>(&call.hidden[token * static_cast<size_t>(slice_.hidden_size)]);
  }

  // Rows of one expert next to each other, so that its matrices see a dense block.
  void Gather(const LayerCallView& call, const Batch& batch, int g) {
    const ExpertGroup& group = batch.groups[g];
    const Inputs& in = inputs_[g];
    if (group.rows == 1) return;
    const size_t bytes = in.form == ActivationForm::kFloat
                             ? static_cast<size_t>(slice_.hidden_size) * sizeof(float)
                             : in.x_stride;
    auto* target = const_cast<std::byte*>(in.x);
    for (int row = 0; row < group.rows; ++row, target += in.x_stride)
      std::memcpy(target, TokenRow(call, in.form, groups_.tokens[group.row_begin + row]), bytes);
  }

  static const std::byte* Panel(const PackedMatrix& matrix, int row) {
    return matrix.data +
           static_cast<size_t>(row / kPanelRows) * layout::PanelBytes(matrix.format, matrix.cols);
  }

  struct Rows {
    ActivationForm form;
    const std::byte* data;
    size_t stride;  // bytes
    int count;
  };
  // y[rows, row_end - row_begin] = outputs [row_begin, row_end) of `weight`; `next` is fetched meanwhile.
  void Multiply(const PackedMatrix& weight, int row_begin, int row_end, const Rows& x, float* y,
                const std::byte* next) const {
    if (x.form == ActivationForm::kFloat) {
      Matmul(isa_, {.weight = weight,
                    .row_begin = row_begin,
                    .row_end = row_end,
                    .x = reinterpret_cast<const float*>(x.data),
                    .x_stride = static_cast<int64_t>(x.stride / sizeof(float)),
                    .tokens = x.count,
                    .y = y,
                    .y_stride = row_end - row_begin});
      return;
    }
    MatmulRounded(isa_, {.weight = weight,
                         .row_begin = row_begin,
                         .row_end = row_end,
                         .form = x.form,
                         .x = x.data,
                         .x_stride = x.stride,
                         .tokens = x.count,
                         .y = y,
                         .y_stride = row_end - row_begin,
                         .next = next});
  }

  // h = silu(gate x) * up x, for a part of one expert's width, in the form that Down reads.
  void GateAndUp(const LayerCallView& call, const Batch& batch, int task, int thread) {
    const int side = side_by_side_ * gate_cut_.tasks, first = task / side * side_by_side_;
    const int beside = std::min(side_by_side_, static_cast<int>(order_.size()) - first);
    const auto g = static_cast<size_t>(order_[static_cast<size_t>(first + task % side % beside)]);
    const ExpertGroup& group = batch.groups[g];
    const Inputs& in = inputs_[g];
    const ExpertWeights& weights = slice_.layers[call.layer][group.expert];
    const Rows x{in.form, in.x, in.x_stride, group.rows};
    const int begin = task % side / beside * gate_cut_.rows;
    const int end = std::min(begin + gate_cut_.rows, slice_.width);
    const int width = end - begin;
    const size_t values = static_cast<size_t>(group.rows) * static_cast<size_t>(width);
    std::vector<float>& block = blocks_[thread];
    block.resize(std::max(block.size(), 2 * values));
    float* gate = block.data();
    float* up = gate + values;
    Multiply(weights.gate, begin, end, x, gate, Panel(weights.up, begin));
    Multiply(weights.up, begin, end, x, up, nullptr);
    SwiGlu(isa_, gate, up, static_cast<int64_t>(values));
    std::byte* h = in.h + static_cast<size_t>(begin / layout::kStepCols) * rounded::StepBytes(in.h_form);
    for (int row = 0; row < group.rows; ++row, h += in.h_stride, gate += width) {
      if (in.h_form == ActivationForm::kFloat) {
        std::memcpy(h, gate, static_cast<size_t>(width) * sizeof(float));
      } else {
        RoundRow(isa_, in.h_form, gate, width, h);
      }
    }
  }

  // A task owns its output columns and adds the experts in ascending order: the result depends on no thread's
  // timing.
  void Down(const LayerCallView& call, const Batch& batch, absl::Span<float> out, int task, int thread) {
    const size_t hidden = slice_.hidden_size;
    const int begin = task * down_cut_.rows;
    const int width = std::min(begin + down_cut_.rows, slice_.hidden_size) - begin;
    for (int token = 0; batch.row_begin() == 0 && token < call.tokens; ++token) {
      std::fill_n(&out[token * hidden + begin], width, 0.0f);
    }
    std::vector<float>& block = blocks_[thread];
    for (size_t g = 0; g < batch.groups.size(); ++g) {
      const ExpertGroup& group = batch.groups[g];
      const Inputs& in = inputs_[g];
      block.resize(std::max(block.size(), static_cast<size_t>(group.rows) * width));
      const auto down = [&](size_t i) -> const PackedMatrix& {
        return slice_.layers[call.layer][batch.groups[i].expert].down;
      };
      Multiply(down(g), begin, begin + width, {in.h_form, in.h, in.h_stride, group.rows}, block.data(),
               g + 1 < batch.groups.size() ? Panel(down(g + 1), begin) : nullptr);
      for (int row = 0; row < group.rows; ++row) {
        const float weight = groups_.weights[group.row_begin + row];
        float* target = &out[groups_.tokens[group.row_begin + row] * hidden + begin];
        for (int i = 0; i < width; ++i) target[i] += weight * block[static_cast<size_t>(row) * width + i];
      }
    }
  }

  const Placement placement_;
  const Isa isa_;
  const Precision precision_;
  ThreadPool pool_;
  CallerThreads callers_;
  ExpertSlice slice_;
  std::optional<double> huge_page_share_;
  WeightPlaces places_;

  TokenGroups groups_;
  std::vector<Inputs> inputs_;                 // [groups of the batch]
  Cut gate_cut_ = {}, down_cut_ = {};          // of gate and up, and of down
  int side_by_side_ = 1;                       // groups whose gate and up are computed together
  std::vector<int> order_, by_rows_;           // of the groups: [groups of the batch]
  std::vector<ActivationForm> rounded_forms_;  // that some group of the batch wants
  std::array<std::vector<std::byte>, kActivationForms>
      rounded_;                          // by ActivationForm: [tokens of the call] rows
  std::vector<std::byte> gathered_;      // rows of the groups with more than one
  std::vector<std::byte> intermediate_;  // rows of all groups
  std::vector<std::vector<float>>
      blocks_;  // [threads][rows of a group, kTaskRows] outputs before they are added

  std::atomic<uint64_t> failed_calls_ = 0;
  std::atomic<uint64_t> weight_bytes_used_ = 0;
  std::optional<ExpertStatistics> statistics_;  // from LoadWeights on
};

absl::StatusOr<std::unique_ptr<ExpertExecutor>> LoadFrom(const SliceSource& source, const ModelConfig& config,
                                                         const ExecutorOptions& options) {
  ASSIGN_OR_RETURN(const Isa isa, SelectIsa(options.isa));
  ASSIGN_OR_RETURN(const Precision precision, ParsePrecision(options.activations));
  std::optional<Placement> home = options.home;
  if (!home) {
    ASSIGN_OR_RETURN(home, FindHome(LimitByQuota(RequestFor(options))));
  }
  auto executor = std::make_unique<SliceExecutor>(*std::move(home), isa, precision);
  RETURN_IF_ERROR(executor->LoadWeights(source, config, options.local_required));
  return executor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExpertExecutor>> ExpertExecutor::Load(const Checkpoint& checkpoint,
                                                                     const ModelConfig& config,
                                                                     const ExecutorOptions& options) {
  return LoadFrom(
      [&](ThreadPool& pool, const Placement& placement) {
        LoadOptions load{.progress = options.progress, .memory = options.memory, .nodes = placement.nodes};
        load.local_required = options.local_required;
        load.ask_for_memory = options.ask_for_memory;
        return LoadSlice(checkpoint, config, options.slice, options.format, pool, load);
      },
      config, options);
}

absl::StatusOr<std::unique_ptr<ExpertExecutor>> ExpertExecutor::LoadPacked(const PackedModel& model,
                                                                           const ExecutorOptions& options) {
  return LoadFrom(
      [&](ThreadPool& pool, const Placement& placement) {
        return LoadPackedSlice(model, options.slice, options.format, pool,
                               {.map = options.map_packed,
                                .nodes = placement.nodes,
                                .local_required = options.local_required,
                                .memory = options.memory,
                                .progress = options.progress,
                                .ask_for_memory = options.ask_for_memory});
      },
      model.config, options);
}

}  // namespace numoe
