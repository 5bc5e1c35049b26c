#include "expert_worker/experts/expert_slice.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <set>
#include <string_view>
#include <tuple>

#include "common/base/status.h"
#include "common/topology/available_memory.h"
#include "expert_worker/experts/packed_shard.h"

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

}  // namespace

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

absl::StatusOr<std::vector<MatrixView>> LocateExpert(const Checkpoint& checkpoint, const ModelConfig& config,
                                                     LayerId layer, ExpertId expert) {
  const int hidden = config.hidden_size;
  const int width = config.moe_intermediate_size;
  std::vector<MatrixView> views;
  for (const auto& [part, rows, cols] :
       {std::tuple{"gate", width, hidden}, {"up", width, hidden}, {"down", hidden, width}}) {
    ASSIGN_OR_RETURN(MatrixView view,
                     checkpoint.LocateMatrix(ModuleName(config, layer, expert, part), rows, cols, config));
    views.push_back(std::move(view));
  }
  return views;
}

namespace {

// The loads of the expert at `place`, to where SliceLayout::WeightsAt says.
absl::Status PlanExpert(const Checkpoint& checkpoint, const ModelConfig& config, const SliceLayout& layout,
                        LayerId layer, size_t place, std::byte* block, absl::Span<MatrixLoad> loads) {
  ASSIGN_OR_RETURN(const std::vector<MatrixView> stored,
                   LocateExpert(checkpoint, config, layer, layout.experts()[place]));
  std::byte* at = block + place * layout.expert_bytes();
  for (const size_t i : {0, 1}) {
    loads[i] = {.stored = stored[i],
                .row_begin = layout.first(),
                .rows = layout.width(),
                .cols = layout.hidden_size(),
                .out = absl::MakeSpan(at + i * layout.up_bytes(), layout.up_bytes())};
  }
  loads[2] = {.stored = stored[2],
              .rows = layout.hidden_size(),
              .col_begin = layout.first(),
              .cols = layout.width(),
              .out = absl::MakeSpan(at + 2 * layout.up_bytes(), layout.down_bytes())};
  return absl::OkStatus();
}

}  // namespace

absl::Status LocateLayer(const Checkpoint& checkpoint, const ModelConfig& config, const SliceLayout& layout,
                         LayerId layer, std::byte* block, ThreadPool& pool, std::vector<MatrixLoad>& loads) {
  const size_t first = loads.size();
  loads.resize(first + kExpertMatrices * layout.experts().size());
  std::mutex mutex;
  absl::Status first_error;
  pool.Run(static_cast<int>(layout.experts().size()), [&](int place, int) {
    const auto at = static_cast<size_t>(place);
    const absl::Status status =
        PlanExpert(checkpoint, config, layout, layer, at, block,
                   absl::MakeSpan(&loads[first + kExpertMatrices * at], kExpertMatrices));
    if (status.ok()) return;
    const std::lock_guard lock(mutex);
    if (first_error.ok()) first_error = status;
  });
  return first_error;
}

ExpertSlice::ExpertSlice(const SliceLayout& layout, int num_layers)
    : spec(layout.spec()),
      format(layout.format()),
      hidden_size(layout.hidden_size()),
      width(layout.width()),
      owned(layout.owned()),
      layers(static_cast<size_t>(num_layers)) {}

void ExpertSlice::AddLayer(const SliceLayout& layout, LayerId layer, const std::byte* block) {
  std::vector<ExpertWeights>& experts = layers[static_cast<size_t>(layer)];
  experts.resize(owned.size());
  for (size_t place = 0; place < layout.experts().size(); ++place)
    experts[static_cast<size_t>(layout.experts()[place])] = layout.WeightsAt(block, place);
  bytes += layout.layer_bytes();
}

MemorySpans ExpertSlice::Spans() const {
  MemorySpans spans;
  for (const NodeMemory& block : memory) spans.push_back(block.bytes());
  for (const MappedFile& shard : shards) spans.push_back(shard.bytes().subspan(kShardDataOffset));
  return spans;
}

absl::StatusOr<ExpertSlice> LoadSlice(const Checkpoint& checkpoint, const ModelConfig& config,
                                      const SliceSpec& spec, const std::string& format, ThreadPool& pool,
                                      const LoadOptions& options) {
  ASSIGN_OR_RETURN(const WeightFormat held, ChooseFormat(checkpoint, config, format));
  ASSIGN_OR_RETURN(const SliceLayout layout, SliceLayout::Plan(config, spec, held));
  RETURN_IF_ERROR(LogGgufFormats(checkpoint, config, held));
  ExpertSlice slice(layout, config.num_layers);
  std::vector<MatrixLoad> loads;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    ASSIGN_OR_RETURN(NodeMemory memory, NodeMemory::Allocate(layout.layer_bytes()));
    RETURN_IF_ERROR(LocateLayer(checkpoint, config, layout, layer, memory.data(), pool, loads));
    slice.AddLayer(layout, layer, memory.data());
    slice.memory.push_back(std::move(memory));
  }
  if (const uint64_t available = AvailableMemory(); slice.bytes > available) {
    spdlog::warn(
        "the slice takes {:.1f} GiB and about {:.1f} GiB of memory are available: expect the kernel to end "
        "this process; more workers, a smaller --format or free memory would do",
        static_cast<double>(slice.bytes) / (1 << 30), static_cast<double>(available) / (1 << 30));
  }
  LoadProgress log_only;
  LoadProgress& progress = options.progress == nullptr ? log_only : *options.progress;
  RETURN_IF_ERROR(LoadMatrices(checkpoint, loads, slice.format, pool, options, progress));
  progress.Finish(fmt::format("the experts of {} layers", slice.memory.size()));
  return slice;
}

}  // namespace numoe
