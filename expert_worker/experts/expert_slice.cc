#include "expert_worker/experts/expert_slice.h"

#include <fmt/format.h>

#include <tuple>

#include "common/base/check.h"
#include "common/base/first_error.h"
#include "common/base/status.h"
#include "expert_worker/experts/packed_shard.h"

namespace numoe::worker {
namespace {

constexpr size_t kExpertMatrices = 3;

}  // namespace

absl::StatusOr<std::vector<MatrixView>> LocateExpert(const Checkpoint& checkpoint, const ModelConfig& config,
                                                     LayerId layer, ExpertId expert) {
  const int hidden = config.hidden_size;
  const int width = config.moe_intermediate_size;
  std::vector<MatrixView> views;
  for (const auto& [part, rows, cols] :
       {std::tuple{"gate", width, hidden}, {"up", width, hidden}, {"down", hidden, width}}) {
    ASSIGN_OR_RETURN(MatrixView view, checkpoint.LocateMatrix(ExpertModuleName(config, layer, expert, part),
                                                              rows, cols, config));
    views.push_back(std::move(view));
  }
  return views;
}

namespace {

// Fills in the loads of the expert at index `place`, which go where SliceLayout::WeightsAt says.
absl::Status PlanExpert(const Checkpoint& checkpoint, const ModelConfig& config, const SliceLayout& layout,
                        LayerId layer, size_t place, std::byte* block, absl::Span<MatrixLoad> loads) {
  ASSIGN_OR_RETURN(const std::vector<MatrixView> stored,
                   LocateExpert(checkpoint, config, layer, layout.experts()[place]));
  NUMOE_CHECK_EQ(loads.size(), kExpertMatrices);
  std::byte* at = block + place * layout.expert_bytes(layer);
  const size_t up_bytes = layout.up_bytes(layer);
  for (const size_t i : {0, 1}) {
    loads[i] = {.stored = stored[i],
                .format = layout.formats(layer).up,
                .row_begin = layout.first(),
                .rows = layout.width(),
                .cols = layout.hidden_size(),
                .out = absl::MakeSpan(at + i * up_bytes, up_bytes)};
  }
  NUMOE_DCHECK_EQ(2 * up_bytes + layout.down_bytes(layer), layout.expert_bytes(layer));
  loads[2] = {.stored = stored[2],
              .format = layout.formats(layer).down,
              .rows = layout.hidden_size(),
              .col_begin = layout.first(),
              .cols = layout.width(),
              .out = absl::MakeSpan(at + 2 * up_bytes, layout.down_bytes(layer))};
  return absl::OkStatus();
}

}  // namespace

absl::Status LocateLayer(const Checkpoint& checkpoint, const ModelConfig& config, const SliceLayout& layout,
                         LayerId layer, std::byte* block, ThreadPool& pool, std::vector<MatrixLoad>& loads) {
  const size_t first = loads.size();
  loads.resize(first + kExpertMatrices * layout.experts().size());
  FirstError first_error;
  pool.Run(static_cast<int>(layout.experts().size()), [&](int place, int) {
    const auto at = static_cast<size_t>(place);
    first_error.Note(PlanExpert(checkpoint, config, layout, layer, at, block,
                                absl::MakeSpan(&loads[first + kExpertMatrices * at], kExpertMatrices)));
  });
  return first_error.status();
}

ExpertSlice::ExpertSlice(const SliceLayout& layout, const ModelConfig& config)
    : spec(layout.spec()),
      formats(layout.formats()),
      format_names(NamesOf(layout.formats(), config)),
      hidden_size(layout.hidden_size()),
      width(layout.width()),
      first(layout.first()),
      owned(layout.owned()),
      layers(static_cast<size_t>(config.num_layers)) {}

void ExpertSlice::AddLayer(const SliceLayout& layout, LayerId layer, const std::byte* block) {
  std::vector<ExpertWeights>& experts = layers[static_cast<size_t>(layer)];
  NUMOE_CHECK(experts.empty()) << "layer " << layer << " must be added only once";
  experts.resize(owned.size());
  for (size_t place = 0; place < layout.experts().size(); ++place)
    experts[static_cast<size_t>(layout.experts()[place])] = layout.WeightsAt(layer, block, place);
  bytes += layout.layer_bytes(layer);
}

uint64_t ExpertSlice::ExpertBytes(LayerId layer) const {
  NUMOE_DCHECK(0 <= layer && static_cast<size_t>(layer) < formats.size());
  const ExpertFormats& held = formats[static_cast<size_t>(layer)];
  return 2 * PackedBytes(held.up, width, hidden_size) + PackedBytes(held.down, hidden_size, width);
}

MappedWeights ExpertSlice::Directory() const {
  MappedWeights directory{.bytes = memory.bytes(), .width = width, .first = first};
  for (LayerId layer = 0; layer < static_cast<LayerId>(layers.size()); ++layer) {
    if (layers[static_cast<size_t>(layer)].empty()) continue;
    const ExpertFormats& held = formats[static_cast<size_t>(layer)];
    directory.layers.push_back({.layer = layer,
                                .offset = memory.offset(layer),
                                .expert_bytes = ExpertBytes(layer),
                                .up_format = std::string(WeightFormatName(held.up)),
                                .down_format = std::string(WeightFormatName(held.down))});
  }
  return directory;
}

MemorySpans ExpertSlice::Spans() const {
  MemorySpans spans = memory.Spans();
  for (const MappedFile& shard : shards) spans.push_back(shard.bytes().subspan(kShardDataOffset));
  return spans;
}

absl::StatusOr<ExpertSlice> LoadSlice(const Checkpoint& checkpoint, const ModelConfig& config,
                                      const SliceSpec& spec, std::optional<WeightFormat> format,
                                      ThreadPool& pool, const LoadOptions& options) {
  ASSIGN_OR_RETURN(std::vector<ExpertFormats> formats, ChooseFormats(checkpoint, config, spec, format));
  ASSIGN_OR_RETURN(const SliceLayout layout, SliceLayout::Plan(config, spec, std::move(formats)));
  if (options.ask_for_memory) {
    const bool takes_free =
        options.memory.pages == HugePages::kTransparent;  // reserved pages do not count as free memory
    RETURN_IF_ERROR(options.ask_for_memory(takes_free ? SliceMemory::BlockBytes(layout, config) : 0));
  }
  ExpertSlice slice(layout, config);
  const MemoryPlacement placement{.kind = options.memory,
                                  .nodes = options.nodes,
                                  .required = options.local_required,
                                  .progress = options.progress};
  ASSIGN_OR_RETURN(slice.memory, SliceMemory::Reserve(layout, config, placement, pool));
  std::vector<MatrixLoad> loads;
  int loaded_layers = 0;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    std::byte* const block = slice.memory.layer(layer);
    RETURN_IF_ERROR(LocateLayer(checkpoint, config, layout, layer, block, pool, loads));
    slice.AddLayer(layout, layer, block);
    ++loaded_layers;
  }
  LoadProgress log_only;
  LoadProgress& progress = options.progress == nullptr ? log_only : *options.progress;
  NUMOE_CHECK_EQ(loads.size(),
                 static_cast<size_t>(loaded_layers) * layout.experts().size() * kExpertMatrices);
  RETURN_IF_ERROR(LoadMatrices(checkpoint, loads, pool, options, progress));
  RETURN_IF_ERROR(slice.memory.Seal());
  progress.Finish(fmt::format("the experts of {} layers", loaded_layers));
  return slice;
}

}  // namespace numoe::worker
