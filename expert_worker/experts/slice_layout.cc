#include "expert_worker/experts/slice_layout.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"

namespace numoe::worker {
namespace {

// A slice of the intermediate dimension consists of rows of gate and up and of columns of down. Returns what
// must not be cut in each.
struct Block {
  int size;
  const char* what;
};
Block BlockOf(WeightFormat format, bool is_down) {
  const Block rows{kPanelRows, "a panel of 32 rows"}, group{32, "a group of 32 weights that share a scale"};
  if (const std::optional<GgmlType> ggml = GgmlTypeOf(format)) {
    if (!is_down) return rows;
    return TraitsOf(*ggml).block_values == 256 ? Block{256, "a block of 256 weights that share a scale"}
                                               : group;
  }
  if (format == WeightFormat::kFp8) return {64, "half a block of 128 weights that share a scale"};
  return format == WeightFormat::kBf16 ? rows : group;
}

absl::Status CheckSpec(const SliceSpec& spec, const ModelConfig& config) {
  if (spec.worker_count < 1 || spec.worker_count > limits::kWorkersMax) {
    return absl::InvalidArgumentError(
        fmt::format("--worker-count={}: expected 1 to {}", spec.worker_count, limits::kWorkersMax));
  }
  if (spec.worker_index < 0 || spec.worker_index >= spec.worker_count) {
    return absl::InvalidArgumentError(fmt::format("--worker-index={}: expected 0 to {} for --worker-count={}",
                                                  spec.worker_index, spec.worker_count - 1,
                                                  spec.worker_count));
  }
  if (spec.mode == SliceMode::kExpert && spec.worker_count > config.num_experts) {
    return absl::InvalidArgumentError(
        fmt::format("--worker-count={} with --slice=expert: the model has only {} experts", spec.worker_count,
                    config.num_experts));
  }
  return absl::OkStatus();
}

absl::Status CheckWidth(const SliceSpec& spec, const ModelConfig& config, WeightFormat format, bool is_down) {
  if (!CutsBlocks(spec, config, format, is_down)) return absl::OkStatus();
  const Block block = BlockOf(format, is_down);
  return absl::InvalidArgumentError(fmt::format(
      "--slice=intermediate: an expert's intermediate size {} over {} workers would cut {} "
      "(format {}); expected a multiple of {} for each worker: use --slice=expert or another --worker-count",
      config.moe_intermediate_size, spec.worker_count, block.what, WeightFormatName(format), block.size));
}

}  // namespace

const char* SliceModeName(SliceMode mode) { return mode == SliceMode::kExpert ? "expert" : "intermediate"; }

bool CutsBlocks(const SliceSpec& spec, const ModelConfig& config, WeightFormat format, bool is_down) {
  return spec.mode == SliceMode::kIntermediate && spec.worker_count > 1 &&
         config.moe_intermediate_size % (spec.worker_count * BlockOf(format, is_down).size) != 0;
}

absl::StatusOr<SliceLayout> SliceLayout::Plan(const ModelConfig& config, const SliceSpec& spec,
                                              std::vector<ExpertFormats> formats) {
  RETURN_IF_ERROR(CheckSpec(spec, config));
  NUMOE_CHECK_EQ(formats.size(), config.layer_is_moe.size());
  for (size_t layer = 0; layer < formats.size(); ++layer) {
    if (!config.layer_is_moe[layer]) continue;
    RETURN_IF_ERROR(CheckWidth(spec, config, formats[layer].up, /*is_down=*/false));
    RETURN_IF_ERROR(CheckWidth(spec, config, formats[layer].down, /*is_down=*/true));
  }
  SliceLayout layout;
  const bool whole = spec.mode == SliceMode::kExpert;
  layout.spec_ = spec;
  layout.formats_ = std::move(formats);
  layout.hidden_size_ = config.hidden_size;
  layout.width_ = whole ? config.moe_intermediate_size : config.moe_intermediate_size / spec.worker_count;
  layout.first_ = whole ? 0 : int64_t{spec.worker_index} * layout.width_;
  for (ExpertId e = 0; e < config.num_experts; ++e) {
    layout.owned_.push_back(!whole || e % spec.worker_count == spec.worker_index);
    if (layout.owned_.back()) layout.mine_.push_back(e);
  }
  NUMOE_CHECK_LE(layout.first_ + layout.width_, config.moe_intermediate_size);
  NUMOE_CHECK(config.num_experts == 0 || !layout.mine_.empty()) << "a worker must have a part of every layer";
  return layout;
}

ExpertWeights SliceLayout::WeightsAt(LayerId layer, const std::byte* block, size_t place) const {
  NUMOE_DCHECK(block != nullptr && place < mine_.size());
  const std::byte* at = block + place * expert_bytes(layer);
  const auto matrix = [](WeightFormat format, int rows, int cols, const std::byte* data) {
    return PackedMatrix{.format = format, .rows = rows, .cols = cols, .data = data};
  };
  const auto& [up, down] = formats(layer);
  return {.gate = matrix(up, width_, hidden_size_, at),
          .up = matrix(up, width_, hidden_size_, at + up_bytes(layer)),
          .down = matrix(down, hidden_size_, width_, at + 2 * up_bytes(layer))};
}

}  // namespace numoe::worker
