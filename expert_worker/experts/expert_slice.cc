#include "expert_worker/experts/expert_slice.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <set>
#include <string_view>

#include "common/base/limits.h"
#include "common/base/status.h"

namespace numoe {
namespace {

constexpr size_t kExpertMatrices = 3;

std::string ModuleName(const ModelConfig& config, LayerId layer, ExpertId expert, const char* part) {
  return fmt::format("{}model.layers.{}.mlp.experts.{}.{}_proj", config.tensor_prefix, layer, expert, part);
}

// Says what becomes of experts in GGUF's block formats, which the layers and matrices of a file mix.
absl::Status LogGgufFormats(const Checkpoint& checkpoint, const ModelConfig& config, WeightFormat format) {
  std::set<std::string> exact, rounded;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[layer]) continue;
    for (const char* part : {"gate", "up", "down"}) {
      const bool down = std::string_view(part) == "down";
      const int rows = down ? config.hidden_size : config.moe_intermediate_size;
      const int cols = down ? config.moe_intermediate_size : config.hidden_size;
      ASSIGN_OR_RETURN(const MatrixView view,
                       checkpoint.FindMatrix(ModuleName(config, layer, 0, part), rows, cols, config));
      if (view.format != MatrixFormat::kGgml) continue;
      const bool keeps = format == WeightFormat::kInt8 && GgmlIsInt8(view.ggml);
      (keeps ? exact : rounded).insert(TraitsOf(view.ggml).name);
    }
  }
  if (exact.empty() && rounded.empty()) return absl::OkStatus();
  spdlog::info("experts in GGUF formats are held as {}{}{}", WeightFormatName(format),
               exact.empty() ? "" : fmt::format("; exactly: {}", fmt::join(exact, ", ")),
               rounded.empty() ? "" : fmt::format("; rounded: {}", fmt::join(rounded, ", ")));
  return absl::OkStatus();
}

absl::StatusOr<WeightFormat> ChooseFormat(const Checkpoint& checkpoint, const ModelConfig& config,
                                          const std::string& format) {
  if (format != "auto") return ParseWeightFormat(format);
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[layer]) continue;
    ASSIGN_OR_RETURN(const MatrixView gate,
                     checkpoint.FindMatrix(ModuleName(config, layer, 0, "gate"), config.moe_intermediate_size,
                                           config.hidden_size, config));
    return NativeFormat(gate);
  }
  return absl::InvalidArgumentError("the model has no MoE layer: nothing for an expert worker to do");
}

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

// What lies where: an expert is gate, up and down, one after the other; a layer its experts, in ascending
// order.
class SliceLayout {
 public:
  SliceLayout(const Checkpoint& checkpoint, const ModelConfig& config, const ExpertSlice& slice)
      : checkpoint_(checkpoint), config_(config), slice_(slice) {
    const bool whole = slice.spec.mode == SliceMode::kExpert;
    first_ = whole ? 0 : int64_t{slice.spec.worker_index} * slice.width;
    up_bytes_ = PackedBytes(slice.format, slice.width, slice.hidden_size);
    down_bytes_ = PackedBytes(slice.format, slice.hidden_size, slice.width);
    for (size_t e = 0; e < slice.owned.size(); ++e) {
      if (slice.owned[e]) mine_.push_back(static_cast<ExpertId>(e));
    }
  }

  const std::vector<ExpertId>& mine() const { return mine_; }
  size_t layer_bytes() const { return mine_.size() * expert_bytes(); }

  /// Of the expert at `place` in mine().
  ExpertWeights WeightsAt(const std::byte* layer, size_t place) const {
    const std::byte* at = layer + place * expert_bytes();
    const auto matrix = [&](int rows, int cols, const std::byte* data) {
      return PackedMatrix{.format = slice_.format, .rows = rows, .cols = cols, .data = data};
    };
    return {.gate = matrix(slice_.width, slice_.hidden_size, at),
            .up = matrix(slice_.width, slice_.hidden_size, at + up_bytes_),
            .down = matrix(slice_.hidden_size, slice_.width, at + 2 * up_bytes_)};
  }

  /// The three matrices of an expert, to be packed to where WeightsAt says.
  absl::Status AppendLoads(LayerId layer, size_t place, std::byte* out, absl::Span<MatrixLoad> loads) const {
    const int hidden = slice_.hidden_size;
    const int width = slice_.width;
    const int stored_width = config_.moe_intermediate_size;
    const auto module = [&](const char* part) { return ModuleName(config_, layer, mine_[place], part); };
    std::byte* at = out + place * expert_bytes();
    for (const auto& [part, load] : {std::pair{"gate", &loads[0]}, {"up", &loads[1]}}) {
      ASSIGN_OR_RETURN(load->stored, checkpoint_.LocateMatrix(module(part), stored_width, hidden, config_));
      load->row_begin = first_;
      load->rows = width;
      load->cols = hidden;
      load->out = absl::MakeSpan(at, up_bytes_);
      at += up_bytes_;
    }
    MatrixLoad& down = loads[2];
    ASSIGN_OR_RETURN(down.stored, checkpoint_.LocateMatrix(module("down"), hidden, stored_width, config_));
    down.rows = hidden;
    down.col_begin = first_;
    down.cols = width;
    down.out = absl::MakeSpan(at, down_bytes_);
    return absl::OkStatus();
  }

 private:
  size_t expert_bytes() const { return 2 * up_bytes_ + down_bytes_; }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const ExpertSlice& slice_;
  std::vector<ExpertId> mine_;
  int64_t first_ = 0;
  size_t up_bytes_ = 0;
  size_t down_bytes_ = 0;
};

// Finds every matrix of one layer in the checkpoint.
absl::Status LocateLayer(const SliceLayout& layout, LayerId layer, std::byte* out, ThreadPool& pool,
                         std::vector<MatrixLoad>& loads) {
  const size_t first = loads.size();
  loads.resize(first + kExpertMatrices * layout.mine().size());
  std::mutex mutex;
  absl::Status first_error;
  pool.Run(static_cast<int>(layout.mine().size()), [&](int place, int) {
    const auto at = static_cast<size_t>(place);
    const absl::Status status = layout.AppendLoads(
        layer, at, out, absl::MakeSpan(&loads[first + kExpertMatrices * at], kExpertMatrices));
    if (status.ok()) return;
    const std::lock_guard lock(mutex);
    if (first_error.ok()) first_error = status;
  });
  return first_error;
}

}  // namespace

absl::StatusOr<ExpertSlice> LoadSlice(const Checkpoint& checkpoint, const ModelConfig& config,
                                      const SliceSpec& spec, const std::string& format, ThreadPool& pool,
                                      const LoadOptions& options) {
  RETURN_IF_ERROR(CheckSpec(spec, config));
  ExpertSlice slice{.spec = spec, .hidden_size = config.hidden_size};
  ASSIGN_OR_RETURN(slice.format, ChooseFormat(checkpoint, config, format));
  RETURN_IF_ERROR(LogGgufFormats(checkpoint, config, slice.format));
  RETURN_IF_ERROR(CheckWidth(spec, config, slice.format));
  const bool whole = spec.mode == SliceMode::kExpert;
  slice.width = whole ? config.moe_intermediate_size : config.moe_intermediate_size / spec.worker_count;
  slice.owned.resize(config.num_experts);
  for (int e = 0; e < config.num_experts; ++e)
    slice.owned[e] = !whole || e % spec.worker_count == spec.worker_index;
  slice.layers.resize(config.num_layers);
  const SliceLayout layout(checkpoint, config, slice);
  std::vector<MatrixLoad> loads;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[layer]) continue;
    ASSIGN_OR_RETURN(NodeMemory memory, NodeMemory::Allocate(layout.layer_bytes()));
    RETURN_IF_ERROR(LocateLayer(layout, layer, memory.data(), pool, loads));
    slice.layers[layer].resize(slice.owned.size());
    for (size_t place = 0; place < layout.mine().size(); ++place)
      slice.layers[layer][layout.mine()[place]] = layout.WeightsAt(memory.data(), place);
    slice.bytes += memory.size();
    slice.memory.push_back(std::move(memory));
  }
  LoadProgress log_only;
  LoadProgress& progress = options.progress == nullptr ? log_only : *options.progress;
  RETURN_IF_ERROR(LoadMatrices(checkpoint, loads, slice.format, pool, options, progress));
  progress.Finish(fmt::format("the experts of {} layers", slice.memory.size()));
  return slice;
}

}  // namespace numoe
