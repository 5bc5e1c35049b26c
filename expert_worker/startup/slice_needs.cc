#include "expert_worker/startup/slice_needs.h"

#include <optional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/transport/call_codec.h"
#include "common/transport/mailbox_segment.h"
#include "common/transport/transport_limits.h"
#include "expert_worker/experts/expert_formats.h"
#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/experts/slice_layout.h"
#include "expert_worker/experts/slice_memory.h"

namespace numoe::worker {

absl::StatusOr<ModelConfig> ReadConfigOf(const std::string& model) {
  if (!IsPackedModel(model)) return ReadModelConfig(model);
  ASSIGN_OR_RETURN(PackedModel packed, ReadManifest(model));
  return std::move(packed.config);
}

uint64_t MailboxBytes(const ModelConfig& config) {
  return MailboxSegment::BytesFor(
      RequestBytes(limits::kCallTokensMax, config.experts_per_token, config.hidden_size));
}

absl::StatusOr<SliceBytes> PlanSliceBytes(const WorkerOptions& options) {
  const SliceSpec& spec = options.executor.slice;
  const bool from_free_memory = options.executor.memory.pages == HugePages::kTransparent;
  ModelConfig config;
  std::vector<ExpertFormats> formats;
  std::optional<uint64_t> mapped;
  if (IsPackedModel(options.model)) {
    ASSIGN_OR_RETURN(PackedModel packed, ReadManifest(options.model));
    if (options.executor.map_packed && from_free_memory) {
      ASSIGN_OR_RETURN(mapped, MappedBytesToTake(packed, spec));
    }
    config = std::move(packed.config);
    formats = std::move(packed.formats);
  } else {
    ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(options.model));
    ASSIGN_OR_RETURN(config, ReadModelConfig(options.model));
    ASSIGN_OR_RETURN(formats, ChooseFormats(*checkpoint, config, spec, options.executor.format));
  }
  ASSIGN_OR_RETURN(const SliceLayout layout, SliceLayout::Plan(config, spec, std::move(formats)));
  const uint64_t weights = SliceMemory::BlockBytes(layout, config);
  return SliceBytes{.weights = weights, .of_free_memory = from_free_memory ? mapped.value_or(weights) : 0};
}

absl::StatusOr<WorkerNeeds> NeedsOf(const WorkerOptions& options, uint64_t weight_bytes) {
  WorkerNeeds needs{.weight_bytes = weight_bytes,
                    .worker_count = options.executor.slice.worker_count,
                    .packed = IsPackedModel(options.model)};
  if (options.shared_memory) {
    ASSIGN_OR_RETURN(const ModelConfig config, ReadConfigOf(options.model));
    needs.mailbox_bytes = MailboxBytes(config);
  }
  return needs;
}

}  // namespace numoe::worker
