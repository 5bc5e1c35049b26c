#include "expert_worker/pack/inspect.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string_view>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/threading/thread_binding.h"
#include "common/topology/available_memory.h"
#include "common/topology/topology.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/experts/packed_shard.h"
#include "expert_worker/experts/packed_slice.h"

namespace numoe::worker {
namespace {

namespace fs = std::filesystem;

std::string Gib(uint64_t bytes) { return fmt::format("{:.3f} GiB", static_cast<double>(bytes) / (1 << 30)); }

const char* StoredAs(const MatrixView& view) {
  switch (view.format) {
    case MatrixFormat::kF32:
      return "F32";
    case MatrixFormat::kF16:
      return "F16";
    case MatrixFormat::kBF16:
      return "BF16";
    case MatrixFormat::kFp8Block:
      return "block FP8";
    case MatrixFormat::kInt4Group:
      return "INT4 groups";
    case MatrixFormat::kGgml:
      return TraitsOf(view.ggml).name;
  }
  return "unknown";
}

bool CanHold(WeightFormat format, const std::set<WeightFormat>& native) {
  const bool as_stored =
      format == WeightFormat::kRawInt4 || format == WeightFormat::kFp8 || GgmlTypeOf(format).has_value();
  return !as_stored || native == std::set<WeightFormat>{format};
}

int MoeLayers(const ModelConfig& config) {
  NUMOE_CHECK_EQ(config.layer_is_moe.size(), static_cast<size_t>(config.num_layers));
  return static_cast<int>(std::count(config.layer_is_moe.begin(), config.layer_is_moe.end(), true));
}

// Returns lines of the form "stored as: bytes", over all experts.
absl::StatusOr<std::string> DescribeExperts(const Checkpoint& checkpoint, const ModelConfig& config,
                                            std::set<WeightFormat>& native, uint64_t& expert_bytes) {
  std::map<std::string, std::pair<int, uint64_t>> stored;  // numbers of matrices and of bytes
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    for (ExpertId expert = 0; expert < config.num_experts; ++expert) {
      ASSIGN_OR_RETURN(const std::vector<MatrixView> views, LocateExpert(checkpoint, config, layer, expert));
      NUMOE_CHECK_EQ(views.size(), size_t{3}) << "gate, up and down";
      for (const MatrixView& view : views) {
        auto& [matrices, bytes] = stored[StoredAs(view)];
        ++matrices;
        bytes += view.data.size() + view.scales.size();
        expert_bytes += view.data.size() + view.scales.size();
        native.insert(NativeFormat(view));
      }
    }
  }
  std::string text;
  for (const auto& [name, sum] : stored)
    text += fmt::format("  experts as {}: {} matrices, {}\n", name, sum.first, Gib(sum.second));
  return text;
}

uint64_t SliceBytes(const ModelConfig& config, const SliceLayout& layout) {
  uint64_t bytes = 0;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (config.layer_is_moe[static_cast<size_t>(layer)]) bytes += layout.layer_bytes(layer);
  }
  return bytes;
}

// Returns one line that says what a worker holds in these formats, or why it cannot.
std::string DescribeSlice(const ModelConfig& config, const SliceSpec& spec, std::string_view name,
                          std::vector<ExpertFormats> formats) {
  const absl::StatusOr<SliceLayout> layout = SliceLayout::Plan(config, spec, std::move(formats));
  const std::string slice = fmt::format("  {:8} by {:12}", name, SliceModeName(spec.mode));
  if (!layout.ok())
    return fmt::format("{} not possible: {}\n", slice, std::string(layout.status().message()));
  const uint64_t bytes = SliceBytes(config, *layout);
  return fmt::format("{} {:>14}{}\n", slice, Gib(bytes),
                     bytes <= AvailableMemory() ? "" : "  (more than is available here)");
}

absl::StatusOr<std::string> DescribeSlices(const Checkpoint& checkpoint, const ModelConfig& config,
                                           const std::set<WeightFormat>& native, int workers) {
  std::string text = fmt::format("one of {} workers holds\n", workers);
  constexpr SliceMode kModes[] = {SliceMode::kIntermediate, SliceMode::kExpert};
  for (const SliceMode mode : kModes) {
    const SliceSpec spec{.mode = mode, .worker_count = workers};
    ASSIGN_OR_RETURN(std::vector<ExpertFormats> formats,
                     ChooseFormats(checkpoint, config, spec, std::nullopt));
    text += DescribeSlice(config, spec, "auto", std::move(formats));
  }
  for (size_t i = 0; i < kWeightFormats; ++i) {
    const auto format = static_cast<WeightFormat>(i);
    if (!CanHold(format, native)) continue;
    for (const SliceMode mode : kModes) {
      text += DescribeSlice(config, {.mode = mode, .worker_count = workers}, WeightFormatName(format),
                            std::vector<ExpertFormats>(config.layer_is_moe.size(), {format, format}));
    }
  }
  return text;
}

std::string DescribeMachine() {
  std::string text = "this machine: ";
  const absl::StatusOr<Topology> topology = DetectTopology();
  text += topology.ok() ? topology->ToString() : std::string(topology.status().message());
  return text + fmt::format("; {} available\n", Gib(AvailableMemory()));
}

absl::StatusOr<std::string> InspectCheckpoint(const InspectOptions& options) {
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(options.model));
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(options.model));
  std::string text = fmt::format("{}: {}, {} layers, {} of them with {} experts of {} x {}\n", options.model,
                                 config.model_type, config.num_layers, MoeLayers(config), config.num_experts,
                                 config.moe_intermediate_size, config.hidden_size);
  text += fmt::format("  {} tensors, {}\n", checkpoint->TensorNames().size(), Gib(checkpoint->TotalBytes()));
  std::set<WeightFormat> native;
  uint64_t expert_bytes = 0;
  ASSIGN_OR_RETURN(const std::string experts, DescribeExperts(*checkpoint, config, native, expert_bytes));
  text += experts;
  text += fmt::format("  everything else: {}\n", Gib(checkpoint->TotalBytes() - expert_bytes));
  ASSIGN_OR_RETURN(const std::string slices, DescribeSlices(*checkpoint, config, native, options.workers));
  return text + slices + DescribeMachine();
}

absl::StatusOr<std::string> InspectPacked(const InspectOptions& options) {
  ASSIGN_OR_RETURN(const PackedModel model, ReadManifest(options.model));
  std::string text = fmt::format("{}: model {:016x} packed as {} for {} workers by {}\n", options.model,
                                 model.model_fingerprint, NamesOf(model.formats, model.config),
                                 model.worker_count, SliceModeName(model.mode));
  std::vector<int> cpus = CpusOfThisThread();
  NUMOE_CHECK(!cpus.empty());
  if (options.threads > 0) cpus.resize(static_cast<size_t>(options.threads), cpus.front());
  ThreadPool pool({.name = "pack", .cpus = cpus});
  int missing = 0;
  for (int worker = 0; worker < model.worker_count; ++worker) {
    const SliceSpec spec{.mode = model.mode, .worker_index = worker, .worker_count = model.worker_count};
    ASSIGN_OR_RETURN(const SliceLayout layout, SliceLayout::Plan(model.config, spec, model.formats));
    int shards = 0;
    for (LayerId layer = 0; layer < model.config.num_layers; ++layer) {
      if (!model.config.layer_is_moe[static_cast<size_t>(layer)]) continue;
      const fs::path path = model.dir / ShardName(spec, layer);
      const absl::StatusOr<ShardHeader> header = ReadShardHeader(path);
      if (absl::IsNotFound(header.status())) {
        ++missing;
        continue;
      }
      RETURN_IF_ERROR(header.status());
      RETURN_IF_ERROR(
          MatchShard(*header, DescribeShard(layout, layer, model.model_fingerprint), path.string()));
      if (options.verify) RETURN_IF_ERROR(VerifyShard(path, pool, nullptr));
      ++shards;
    }
    text +=
        fmt::format("  worker {}: {} of {} shards{}, {} in all\n", worker, shards, MoeLayers(model.config),
                    options.verify ? ", checksums right" : "", Gib(SliceBytes(model.config, layout)));
  }
  if (missing == 0) return text + DescribeMachine();
  return absl::FailedPreconditionError(fmt::format(
      "{}{} shards are missing: run numoe-pack convert again, it continues where it stopped", text, missing));
}

}  // namespace

absl::StatusOr<std::string> Inspect(const InspectOptions& options) {
  return IsPackedModel(options.model) ? InspectPacked(options) : InspectCheckpoint(options);
}

}  // namespace numoe::worker
