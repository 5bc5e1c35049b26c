#include "expert_worker/experts/expert_slice.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <string_view>

#include "common/base/limits.h"
#include "common/base/status.h"

namespace numoe {
namespace {

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
    return NativeFormat(gate.format);
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
      ASSIGN_OR_RETURN(const MatrixView view,
                       Find(layer, expert, part, config_.moe_intermediate_size, hidden));
      RETURN_IF_ERROR(
          Context(PackMatrix(slice_.format, view, first_, width, 0, hidden, absl::MakeSpan(at, up_bytes_)),
                  layer, expert, part));
      *target = {.format = slice_.format, .rows = width, .cols = hidden, .data = at};
    }
    std::byte* at = out + 2 * up_bytes_;
    ASSIGN_OR_RETURN(const MatrixView view,
                     Find(layer, expert, "down", hidden, config_.moe_intermediate_size));
    RETURN_IF_ERROR(
        Context(PackMatrix(slice_.format, view, 0, hidden, first_, width, absl::MakeSpan(at, down_bytes_)),
                layer, expert, "down"));
    w.down = {.format = slice_.format, .rows = hidden, .cols = width, .data = at};
    return w;
  }

 private:
  absl::StatusOr<MatrixView> Find(LayerId layer, ExpertId expert, const char* part, int rows,
                                  int cols) const {
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

// A line every few seconds: loading hundreds of gigabytes takes minutes.
class LoadProgress {
 public:
  explicit LoadProgress(int layers) : layers_(layers), begin_(Clock::now()), last_(begin_) {}

  void Report(LayerId layer, uint64_t bytes) {
    if (Clock::now() - last_ < std::chrono::seconds(5)) return;
    last_ = Clock::now();
    spdlog::info("loading experts: layer {} of {}, {}", layer + 1, layers_, Rate(bytes));
  }
  void Finish(uint64_t bytes) const {
    spdlog::info("loaded the experts of {} layers: {}", layers_, Rate(bytes));
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string Rate(uint64_t bytes) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    const double gib = static_cast<double>(bytes) / (1 << 30);
    return fmt::format("{:.3f} GiB in {:.1f} s ({:.2f} GiB/s)", gib, seconds, gib / std::max(seconds, 1e-9));
  }

  const int layers_;
  const Clock::time_point begin_;
  Clock::time_point last_;
};

}  // namespace

absl::StatusOr<ExpertSlice> LoadSlice(const Checkpoint& checkpoint, const ModelConfig& config,
                                      const SliceSpec& spec, const std::string& format, ThreadPool& pool) {
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
  const ExpertPacker packer(checkpoint, config, slice);
  LoadProgress progress(config.num_layers);
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[layer]) continue;
    RETURN_IF_ERROR(PackLayer(packer, layer, pool, slice));
    progress.Report(layer, slice.bytes);
  }
  progress.Finish(slice.bytes);
  return slice;
}

}  // namespace numoe
