#include "expert_worker/experts/expert_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/threading/thread_pool.h"
#include "common/topology/topology.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/grouping/token_groups.h"

namespace numoe {
namespace {

// Outputs of one task: whole panels, enough of them that a task is worth claiming.
constexpr int kTaskRows = 4 * kPanelRows;

int Tasks(int rows) { return (rows + kTaskRows - 1) / kTaskRows; }

class SliceExecutor final : public ExpertExecutor {
 public:
  SliceExecutor(Placement placement, Isa isa, bool pinned)
      : placement_(std::move(placement)), isa_(isa), pinned_(pinned), pool_({.name = "expert", .cpus = placement_.cpus}) {}

  absl::Status LoadWeights(const Checkpoint& checkpoint, const ModelConfig& config, const ExecutorOptions& options) {
    ASSIGN_OR_RETURN(slice_, LoadSlice(checkpoint, config, options.slice, options.format, pool_));
    return absl::OkStatus();
  }

  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    RETURN_IF_ERROR(CheckCall(call, out));
    RETURN_IF_ERROR(GroupTokens(call, slice_.owned, groups_));
    const size_t rows = groups_.tokens.size();
    gathered_.resize(rows * slice_.hidden_size);
    gate_.resize(rows * slice_.width);
    up_.resize(rows * slice_.width);
    Gather(call);
    GateAndUp(call);
    Down(call, out);
    return absl::OkStatus();
  }

  const SliceSpec& slice() const override { return slice_.spec; }
  uint64_t WeightBytes() const override { return slice_.bytes; }
  std::string Describe() const override {
    return fmt::format("slice {}/{} by {}, format {}, isa {}, {} threads ({}), {:.3f} GiB of weights, pinned {}",
                       slice_.spec.worker_index, slice_.spec.worker_count,
                       slice_.spec.mode == SliceMode::kExpert ? "expert" : "intermediate",
                       WeightFormatName(slice_.format), IsaName(isa_), pool_.threads(), placement_.why,
                       static_cast<double>(slice_.bytes) / (1 << 30), pinned_ ? "yes" : "no");
  }

 private:
  absl::Status CheckCall(const LayerCallView& call, absl::Span<float> out) const {
    const auto bad = [](const std::string& what) { return absl::InvalidArgumentError("layer call: " + what); };
    const int layers = static_cast<int>(slice_.layers.size());
    if (call.layer < 0 || call.layer >= layers || slice_.layers[call.layer].empty()) {
      return bad(fmt::format("layer {} is not one of the model's MoE layers (0 to {})", call.layer, layers - 1));
    }
    if (call.tokens < 1 || call.tokens > limits::kCallTokensMax) {
      return bad(fmt::format("{} tokens, expected 1 to {}", call.tokens, limits::kCallTokensMax));
    }
    if (call.experts_per_token < 1 || call.experts_per_token > limits::kExpertsPerTokenMax) {
      return bad(fmt::format("{} experts per token, expected 1 to {}", call.experts_per_token, limits::kExpertsPerTokenMax));
    }
    const size_t values = static_cast<size_t>(call.tokens) * slice_.hidden_size;
    const size_t entries = static_cast<size_t>(call.tokens) * call.experts_per_token;
    if (call.hidden.size() != values || out.size() != values || call.experts.size() != entries ||
        call.weights.size() != entries) {
      return bad(fmt::format("{} hidden values, {} outputs, {} ids, {} weights; expected {}, {}, {}, {}",
                             call.hidden.size(), out.size(), call.experts.size(), call.weights.size(), values, values,
                             entries, entries));
    }
    return absl::OkStatus();
  }

  // Rows of one expert next to each other, so that its matrices see a dense block.
  void Gather(const LayerCallView& call) {
    const size_t hidden = slice_.hidden_size;
    pool_.Run(static_cast<int>(groups_.groups.size()), [&](int g, int) {
      const ExpertGroup& group = groups_.groups[g];
      for (int row = group.row_begin; row < group.row_begin + group.rows; ++row) {
        std::memcpy(&gathered_[row * hidden], &call.hidden[groups_.tokens[row] * hidden], hidden * sizeof(float));
      }
    });
  }

  // gate_ = silu(gate x) * up x, for every expert and every part of its width.
  void GateAndUp(const LayerCallView& call) {
    const int parts = Tasks(slice_.width);
    pool_.Run(static_cast<int>(groups_.groups.size()) * parts, [&](int task, int) {
      const ExpertGroup& group = groups_.groups[task / parts];
      const ExpertWeights& weights = slice_.layers[call.layer][group.expert];
      const int begin = task % parts * kTaskRows;
      const int end = std::min(begin + kTaskRows, slice_.width);
      const size_t first = static_cast<size_t>(group.row_begin) * slice_.width + begin;
      MatmulArgs args{.weight = weights.gate, .row_begin = begin, .row_end = end,
                      .x = &gathered_[static_cast<size_t>(group.row_begin) * slice_.hidden_size],
                      .x_stride = slice_.hidden_size, .tokens = group.rows, .y = &gate_[first],
                      .y_stride = slice_.width, .exact = call.exact};
      Matmul(isa_, args);
      args.weight = weights.up;
      args.y = &up_[first];
      Matmul(isa_, args);
      for (int row = 0; row < group.rows; ++row) {
        const size_t at = first + static_cast<size_t>(row) * slice_.width;
        SwiGlu(isa_, &gate_[at], &up_[at], end - begin);
      }
    });
  }

  // A task owns its output columns and adds the experts in ascending order: the result depends on no thread's timing.
  void Down(const LayerCallView& call, absl::Span<float> out) {
    const int hidden = slice_.hidden_size;
    pool_.Run(Tasks(hidden), [&](int task, int) {
      const int begin = task * kTaskRows;
      const int width = std::min(begin + kTaskRows, hidden) - begin;
      for (int t = 0; t < call.tokens; ++t) {
        std::fill_n(&out[static_cast<size_t>(t) * hidden + begin], width, 0.0f);
      }
      std::vector<float> block;
      for (const ExpertGroup& group : groups_.groups) {
        block.resize(static_cast<size_t>(group.rows) * width);
        Matmul(isa_, {.weight = slice_.layers[call.layer][group.expert].down, .row_begin = begin,
                      .row_end = begin + width, .x = &gate_[static_cast<size_t>(group.row_begin) * slice_.width],
                      .x_stride = slice_.width, .tokens = group.rows, .y = block.data(), .y_stride = width,
                      .exact = call.exact});
        for (int row = 0; row < group.rows; ++row) {
          const float weight = groups_.weights[group.row_begin + row];
          float* target = &out[static_cast<size_t>(groups_.tokens[group.row_begin + row]) * hidden + begin];
          for (int i = 0; i < width; ++i) target[i] += weight * block[static_cast<size_t>(row) * width + i];
        }
      }
    });
  }

  const Placement placement_;
  const Isa isa_;
  const bool pinned_;
  ThreadPool pool_;
  ExpertSlice slice_;
  TokenGroups groups_;
  std::vector<float> gathered_;  // [rows, hidden]
  std::vector<float> gate_;      // [rows, width]
  std::vector<float> up_;        // [rows, width]
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
  const bool pinned = placement.cpus.size() <= topology.nodes[placement.node].cpus.size();
  auto executor = std::make_unique<SliceExecutor>(std::move(placement), isa, pinned);
  RETURN_IF_ERROR(executor->LoadWeights(checkpoint, config, options));
  return executor;
}

}  // namespace numoe
