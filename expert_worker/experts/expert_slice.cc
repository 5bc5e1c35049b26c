#include "expert_worker/experts/expert_slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "common/base/status.h"

namespace numoe {
namespace {

std::string ModuleName(const ModelConfig& config, LayerId layer, ExpertId expert, const char* part) {
  return fmt::format("{}model.layers.{}.mlp.experts.{}.{}_proj", config.tensor_prefix, layer, expert, part);
}

absl::StatusOr<WeightFormat> ChooseFormat(const Checkpoint& checkpoint, const ModelConfig& config,
                                          const std::string& format) {
  if (format != "auto") return ParseWeightFormat(format);
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[layer]) continue;
    ASSIGN_OR_RETURN(const MatrixView gate, checkpoint.FindMatrix(ModuleName(config, layer, 0, "gate"),
                                                                  config.moe_intermediate_size, config.hidden_size, config));
    return NativeFormat(gate.format);
  }
  return absl::InvalidArgumentError("the model has no MoE layer: nothing for an expert worker to do");
}

absl::Status CheckSpec(const SliceSpec& spec, const ModelConfig& config) {
  if (spec.worker_index < 0 || spec.worker_index >= spec.worker_count) {
    return absl::InvalidArgumentError(fmt::format("--worker-index={}: expected 0 to {} for --worker-count={}",
                                                  spec.worker_index, spec.worker_count - 1, spec.worker_count));
  }
  if (spec.mode == SliceMode::kExpert) return absl::OkStatus();
  const int width = config.moe_intermediate_size;
  if (width % (spec.worker_count * kPanelRows) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("--slice=intermediate: an expert's intermediate size {} over {} workers is not a multiple of {} each; "
                    "use --slice=expert or another --worker-count", width, spec.worker_count, kPanelRows));
  }
  return absl::OkStatus();
}

// Packs the three matrices of one expert one after the other into `out`.
class ExpertPacker {
 public:
  ExpertPacker(const Checkpoint& checkpoint, const ModelConfig& config, const ExpertSlice& slice)
      : checkpoint_(checkpoint), config_(config), slice_(slice) {
    const bool whole = slice.spec.mode == SliceMode::kExpert;
    first_ = whole ? 0 : int64_t{slice.spec.worker_index} * slice.width;
    up_bytes_ = PackedBytes(slice.format, slice.width, slice.hidden_size);
    down_bytes_ = PackedBytes(slice.format, slice.hidden_size, slice.width);
  }
  size_t bytes() const { return 2 * up_bytes_ + down_bytes_; }

  absl::StatusOr<ExpertWeights> Pack(LayerId layer, ExpertId expert, std::byte* out) const {
    const int hidden = slice_.hidden_size;
    const int width = slice_.width;
    ExpertWeights w;
    for (const auto& [part, target, at] :
         {std::tuple{"gate", &w.gate, out}, std::tuple{"up", &w.up, out + up_bytes_}}) {
      ASSIGN_OR_RETURN(const MatrixView view, Find(layer, expert, part, config_.moe_intermediate_size, hidden));
      RETURN_IF_ERROR(Context(PackMatrix(slice_.format, view, first_, width, 0, hidden, absl::MakeSpan(at, up_bytes_)),
                              layer, expert, part));
      *target = {.format = slice_.format, .rows = width, .cols = hidden, .data = at};
    }
    std::byte* at = out + 2 * up_bytes_;
    ASSIGN_OR_RETURN(const MatrixView view, Find(layer, expert, "down", hidden, config_.moe_intermediate_size));
    RETURN_IF_ERROR(Context(PackMatrix(slice_.format, view, 0, hidden, first_, width, absl::MakeSpan(at, down_bytes_)),
                            layer, expert, "down"));
    w.down = {.format = slice_.format, .rows = hidden, .cols = width, .data = at};
    return w;
  }

 private:
  absl::StatusOr<MatrixView> Find(LayerId layer, ExpertId expert, const char* part, int rows, int cols) const {
    return checkpoint_.FindMatrix(ModuleName(config_, layer, expert, part), rows, cols, config_);
  }
  absl::Status Context(const absl::Status& status, LayerId layer, ExpertId expert, const char* part) const {
    if (status.ok()) return status;
    return Annotate(status, ModuleName(config_, layer, expert, part));
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const ExpertSlice& slice_;
  int64_t first_ = 0;
  size_t up_bytes_ = 0;
  size_t down_bytes_ = 0;
};

absl::Status PackLayer(const ExpertPacker& packer, LayerId layer, ThreadPool& pool, ExpertSlice& slice) {
  std::vector<ExpertId> mine;
  for (size_t e = 0; e < slice.owned.size(); ++e) {
    if (slice.owned[e]) mine.push_back(static_cast<ExpertId>(e));
  }
  slice.layers[layer].resize(slice.owned.size());
  ASSIGN_OR_RETURN(NodeMemory memory, NodeMemory::Allocate(packer.bytes() * mine.size()));
  std::mutex mutex;
  absl::Status first_error;
  pool.Run(static_cast<int>(mine.size()), [&](int i, int) {
    absl::StatusOr<ExpertWeights> weights = packer.Pack(layer, mine[i], memory.data() + packer.bytes() * i);
    const std::lock_guard lock(mutex);
    if (weights.ok()) {
      slice.layers[layer][mine[i]] = *weights;
    } else if (first_error.ok()) {
      first_error = weights.status();
    }
  });
  RETURN_IF_ERROR(first_error);
  slice.bytes += memory.size();
  slice.memory.push_back(std::move(memory));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExpertSlice> LoadSlice(const Checkpoint& checkpoint, const ModelConfig& config, const SliceSpec& spec,
                                      const std::string& format, ThreadPool& pool) {
  RETURN_IF_ERROR(CheckSpec(spec, config));
  ExpertSlice slice{.spec = spec, .hidden_size = config.hidden_size};
  ASSIGN_OR_RETURN(slice.format, ChooseFormat(checkpoint, config, format));
  const bool whole = spec.mode == SliceMode::kExpert;
  slice.width = whole ? config.moe_intermediate_size : config.moe_intermediate_size / spec.worker_count;
  slice.owned.resize(config.num_experts);
  for (int e = 0; e < config.num_experts; ++e) slice.owned[e] = !whole || e % spec.worker_count == spec.worker_index;
  slice.layers.resize(config.num_layers);
  const ExpertPacker packer(checkpoint, config, slice);
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (config.layer_is_moe[layer]) RETURN_IF_ERROR(PackLayer(packer, layer, pool, slice));
  }
  return slice;
}

}  // namespace numoe
