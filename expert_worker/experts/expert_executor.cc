#include "expert_worker/experts/expert_executor.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/threading/thread_binding.h"
#include "common/threading/thread_pool.h"
#include "common/topology/topology.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/grouping/token_groups.h"

namespace numoe {
namespace {

// Outputs of one task: whole panels, enough of them that a task is worth claiming.
constexpr int kTaskRows = 4 * kPanelRows;

int Tasks(int rows) { return (rows + kTaskRows - 1) / kTaskRows; }

std::string Percent(std::optional<double> share) {
  return share.has_value() ? fmt::format("{:.0f}%", 100 * *share) : "unknown share";
}

// Rows whose intermediate values are held at a time: bounds the scratch of a long prefill (8192 tokens x 8
// experts) to 4096 x (7168 + 2 x 2048) floats = 185 MB, and still gives each expert all its rows at once.
constexpr int kBatchRows = 4096;

class SliceExecutor final : public ExpertExecutor {
 public:
  SliceExecutor(Placement placement, int os_node, Isa isa)
      : placement_(std::move(placement)),
        os_node_(os_node),
        isa_(isa),
        pool_({.name = "expert", .cpus = placement_.cpus}),
        pinned_(pool_.bound() && std::set<int>(placement_.cpus.begin(), placement_.cpus.end()).size() ==
                                     placement_.cpus.size()),
        blocks_(static_cast<size_t>(pool_.threads())) {}

  absl::Status LoadWeights(const Checkpoint& checkpoint, const ModelConfig& config,
                           const ExecutorOptions& options) {
    const ScopedThreadBinding binding(
        placement_.cpus);  // this thread packs too, and pages land where it runs
    ASSIGN_OR_RETURN(slice_, LoadSlice(checkpoint, config, options.slice, options.format, pool_));
    hits_ = std::vector<std::atomic<uint64_t>>(slice_.layers.size() * slice_.owned.size());
    huge_page_share_ = HugePageShare(slice_.memory);
    local_share_ = LocalShare(slice_.memory, os_node_);
    return absl::OkStatus();
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
    Count(call, std::chrono::steady_clock::now() - begin);
    return absl::OkStatus();
  }

  const SliceSpec& slice() const override { return slice_.spec; }
  uint64_t WeightBytes() const override { return slice_.bytes; }
  std::string Describe() const override {
    return fmt::format(
        "slice {}/{} by {}, format {}, isa {}, {} threads ({}), {:.3f} GiB of weights ({} in huge pages, "
        "{} on node {}), pinned {}",
        slice_.spec.worker_index, slice_.spec.worker_count,
        slice_.spec.mode == SliceMode::kExpert ? "expert" : "intermediate", WeightFormatName(slice_.format),
        IsaName(isa_), pool_.threads(), placement_.why, static_cast<double>(slice_.bytes) / (1 << 30),
        Percent(huge_page_share_), Percent(local_share_), os_node_, pinned_ ? "yes" : "no");
  }
  ExecutorStats Stats() const override {
    ExecutorStats stats{.calls = calls_.load(),
                        .failed_calls = failed_calls_.load(),
                        .rows = rows_.load(),
                        .nanoseconds = nanoseconds_.load(),
                        .hits = {},
                        .weight_bytes = slice_.bytes,
                        .threads = pool_.threads(),
                        .pinned = pinned_,
                        .huge_page_share = huge_page_share_,
                        .local_share = local_share_};
    for (const std::atomic<uint64_t>& hits : hits_)
      stats.hits.push_back(hits.load(std::memory_order_relaxed));
    return stats;
  }
  void BindCaller() override {
    if (!BindThread(pthread_self(), {placement_.cpus.front()})) {
      spdlog::warn("cannot bind a thread to CPU {}: it runs unbound, which is slower",
                   placement_.cpus.front());
    }
  }

 private:
  // Whole experts whose intermediate values fit the scratch together.
  struct Batch {
    absl::Span<const ExpertGroup> groups;
    int rows = 0;
    int row_begin() const { return groups.front().row_begin; }
  };

  absl::Status Prepare(const LayerCallView& call, absl::Span<float> out) {
    RETURN_IF_ERROR(CheckCall(call, out));
    return GroupTokens(call, slice_.owned, groups_);
  }

  void ComputeBatch(const LayerCallView& call, const Batch& batch, absl::Span<float> out) {
    const auto rows = static_cast<size_t>(batch.rows);
    gathered_.resize(std::max(gathered_.size(), rows * slice_.hidden_size));
    gate_.resize(std::max(gate_.size(), rows * slice_.width));
    up_.resize(gate_.size());
    Gather(call, batch);
    GateAndUp(call, batch);
    Down(call, batch, out);
  }

  void Count(const LayerCallView& call, std::chrono::nanoseconds duration) {
    for (const ExpertGroup& group : groups_.groups) {
      hits_[call.layer * slice_.owned.size() + group.expert].fetch_add(static_cast<uint64_t>(group.rows),
                                                                       std::memory_order_relaxed);
    }
    calls_.fetch_add(1, std::memory_order_relaxed);
    rows_.fetch_add(groups_.tokens.size(), std::memory_order_relaxed);
    nanoseconds_.fetch_add(static_cast<uint64_t>(duration.count()), std::memory_order_relaxed);
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

  // Where a group's rows lie in the scratch of its batch.
  float* ScratchOf(std::vector<float>& scratch, const Batch& batch, const ExpertGroup& group, int width) {
    return &scratch[static_cast<size_t>(group.row_begin - batch.row_begin()) * width];
  }

  // Rows of one expert next to each other, so that its matrices see a dense block.
  void Gather(const LayerCallView& call, const Batch& batch) {
    const size_t hidden = slice_.hidden_size;
    pool_.Run(static_cast<int>(batch.groups.size()), [&](int g, int) {
      const ExpertGroup& group = batch.groups[g];
      float* target = ScratchOf(gathered_, batch, group, slice_.hidden_size);
      for (int row = 0; row < group.rows; ++row) {
        const size_t token = groups_.tokens[group.row_begin + row];
        std::memcpy(target + row * hidden, &call.hidden[token * hidden], hidden * sizeof(float));
      }
    });
  }

  // gate_ = silu(gate x) * up x, for every expert and every part of its width.
  void GateAndUp(const LayerCallView& call, const Batch& batch) {
    const int parts = Tasks(slice_.width);
    pool_.Run(static_cast<int>(batch.groups.size()) * parts, [&](int task, int) {
      const ExpertGroup& group = batch.groups[task / parts];
      const ExpertWeights& weights = slice_.layers[call.layer][group.expert];
      const int begin = task % parts * kTaskRows;
      const int end = std::min(begin + kTaskRows, slice_.width);
      float* gate = ScratchOf(gate_, batch, group, slice_.width) + begin;
      float* up = ScratchOf(up_, batch, group, slice_.width) + begin;
      MatmulArgs args{.weight = weights.gate,
                      .row_begin = begin,
                      .row_end = end,
                      .x = ScratchOf(gathered_, batch, group, slice_.hidden_size),
                      .x_stride = slice_.hidden_size,
                      .tokens = group.rows,
                      .y = gate,
                      .y_stride = slice_.width,
                      .exact = call.exact};
      Matmul(isa_, args);
      args.weight = weights.up;
      args.y = up;
      Matmul(isa_, args);
      for (int row = 0; row < group.rows; ++row) {
        const size_t at = static_cast<size_t>(row) * slice_.width;
        SwiGlu(isa_, gate + at, up + at, end - begin);
      }
    });
  }

  // A task owns its output columns and adds the experts in ascending order: the result depends on no thread's
  // timing.
  void Down(const LayerCallView& call, const Batch& batch, absl::Span<float> out) {
    const size_t hidden = slice_.hidden_size;
    pool_.Run(Tasks(slice_.hidden_size), [&](int task, int thread) {
      const int begin = task * kTaskRows;
      const int width = std::min(begin + kTaskRows, slice_.hidden_size) - begin;
      for (int token = 0; batch.row_begin() == 0 && token < call.tokens; ++token) {
        std::fill_n(&out[token * hidden + begin], width, 0.0f);
      }
      std::vector<float>& block = blocks_[thread];
      for (const ExpertGroup& group : batch.groups) {
        block.resize(std::max(block.size(), static_cast<size_t>(group.rows) * width));
        Matmul(isa_, {.weight = slice_.layers[call.layer][group.expert].down,
                      .row_begin = begin,
                      .row_end = begin + width,
                      .x = ScratchOf(gate_, batch, group, slice_.width),
                      .x_stride = slice_.width,
                      .tokens = group.rows,
                      .y = block.data(),
                      .y_stride = width,
                      .exact = call.exact});
        for (int row = 0; row < group.rows; ++row) {
          const float weight = groups_.weights[group.row_begin + row];
          float* target = &out[groups_.tokens[group.row_begin + row] * hidden + begin];
          for (int i = 0; i < width; ++i) target[i] += weight * block[static_cast<size_t>(row) * width + i];
        }
      }
    });
  }

  const Placement placement_;
  const int os_node_;
  const Isa isa_;
  ThreadPool pool_;
  const bool pinned_;
  ExpertSlice slice_;
  std::optional<double> huge_page_share_;
  std::optional<double> local_share_;

  TokenGroups groups_;
  std::vector<float> gathered_;  // [batch rows, hidden]
  std::vector<float> gate_;      // [batch rows, width]
  std::vector<float> up_;        // [batch rows, width]
  std::vector<std::vector<float>>
      blocks_;  // [threads][rows of a group, kTaskRows] outputs before they are added

  std::atomic<uint64_t> calls_ = 0;
  std::atomic<uint64_t> failed_calls_ = 0;
  std::atomic<uint64_t> rows_ = 0;
  std::atomic<uint64_t> nanoseconds_ = 0;
  std::vector<std::atomic<uint64_t>> hits_;  // [layers, experts]
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExpertExecutor>> ExpertExecutor::Load(const Checkpoint& checkpoint,
                                                                     const ModelConfig& config,
                                                                     const ExecutorOptions& options) {
  ASSIGN_OR_RETURN(const Isa isa, SelectIsa(options.isa));
  ASSIGN_OR_RETURN(const Topology topology, DetectTopology());
  ASSIGN_OR_RETURN(Placement placement, PlanPlacement(topology, {.worker_index = options.slice.worker_index,
                                                                 .worker_count = options.slice.worker_count,
                                                                 .node = options.node,
                                                                 .threads = options.threads}));
  for (const std::string& warning : topology.warnings) spdlog::warn("topology: {}", warning);
  const NumaNode& home = topology.nodes[placement.node];
  auto executor = std::make_unique<SliceExecutor>(std::move(placement), home.os_index, isa);
  RETURN_IF_ERROR(executor->LoadWeights(checkpoint, config, options));
  if (executor->WeightBytes() > home.memory_bytes) {
    spdlog::warn("{:.1f} GiB of weights do not fit node {}'s {:.1f} GiB: part of them lies on other nodes",
                 static_cast<double>(executor->WeightBytes()) / (1 << 30), home.os_index,
                 static_cast<double>(home.memory_bytes) / (1 << 30));
  }
  return executor;
}

}  // namespace numoe
