#include "coordinator/device/cpu/cache_memory.h"

#include "common/base/status.h"
#include "fmt/format.h"

namespace numoe {

uint64_t CacheMemory::BytesOf(const KvCacheSpec& spec) {
  const uint64_t rows = static_cast<uint64_t>(spec.layers) * static_cast<uint64_t>(spec.blocks) *
                        static_cast<uint64_t>(spec.block_tokens);
  return rows * static_cast<uint64_t>(spec.row.width()) * sizeof(uint16_t);
}

absl::Status CacheMemory::Reserve(const KvCacheSpec& spec) {
  spec_ = spec;
  absl::StatusOr<NodeMemory> memory = NodeMemory::Allocate(BytesOf(spec));
  if (!memory.ok()) {
    return Annotate(memory.status(),
                    fmt::format("KV cache of {} blocks of {} tokens; lower --max-total-tokens", spec.blocks,
                                spec.block_tokens));
  }
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

}  // namespace numoe
