#include "expert_worker/experts/slice_layout.h"

#include <fmt/format.h>

#include "common/base/limits.h"
#include "common/base/status.h"

namespace numoe {
namespace {

// A slice of the intermediate dimension is rows of gate and up and columns of down: what neither may cut.
struct Block {
  int size;
  const char* what;
};
Block BlockOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFp8:
      return {64, "half a block of 128 weights that share a scale"};
    case WeightFormat::kQ4K:
      return {256, "a block of 256 weights that share a scale"};
    case WeightFormat::kRawInt4:
    case WeightFormat::kInt4:
    case WeightFormat::kInt8:
      return {32, "a group of 32 weights that share a scale"};
    case WeightFormat::kBf16:
      break;
  }
  return {kPanelRows, "a panel of 32 rows"};
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

absl::Status CheckWidth(const SliceSpec& spec, const ModelConfig& config, WeightFormat format) {
  if (spec.mode == SliceMode::kExpert || spec.worker_count == 1) return absl::OkStatus();
  const Block block = BlockOf(format);
  const int width = config.moe_intermediate_size;
  if (width % (spec.worker_count * block.size) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--slice=intermediate: an expert's intermediate size {} over {} workers would cut {} "
                  "(format {}); expected a "
                  "multiple of {} for each worker: use --slice=expert or another --worker-count",
                  width, spec.worker_count, block.what, WeightFormatName(format), block.size));
}

}  // namespace

const char* SliceModeName(SliceMode mode) { return mode == SliceMode::kExpert ? "expert" : "intermediate"; }

absl::StatusOr<SliceLayout> SliceLayout::Plan(const ModelConfig& config, const SliceSpec& spec,
                                              WeightFormat format) {
  RETURN_IF_ERROR(CheckSpec(spec, config));
  RETURN_IF_ERROR(CheckWidth(spec, config, format));
  SliceLayout layout;
  const bool whole = spec.mode == SliceMode::kExpert;
  layout.spec_ = spec;
  layout.format_ = format;
  layout.hidden_size_ = config.hidden_size;
  layout.width_ = whole ? config.moe_intermediate_size : config.moe_intermediate_size / spec.worker_count;
  layout.first_ = whole ? 0 : int64_t{spec.worker_index} * layout.width_;
  for (ExpertId e = 0; e < config.num_experts; ++e) {
    layout.owned_.push_back(!whole || e % spec.worker_count == spec.worker_index);
    if (layout.owned_.back()) layout.mine_.push_back(e);
  }
  layout.up_bytes_ = PackedBytes(format, layout.width_, layout.hidden_size_);
  layout.down_bytes_ = PackedBytes(format, layout.hidden_size_, layout.width_);
  return layout;
}

ExpertWeights SliceLayout::WeightsAt(const std::byte* layer, size_t place) const {
  const std::byte* at = layer + place * expert_bytes();
  const auto matrix = [&](int rows, int cols, const std::byte* data) {
    return PackedMatrix{.format = format_, .rows = rows, .cols = cols, .data = data};
  };
  return {.gate = matrix(width_, hidden_size_, at),
          .up = matrix(width_, hidden_size_, at + up_bytes_),
          .down = matrix(hidden_size_, width_, at + 2 * up_bytes_)};
}

}  // namespace numoe
