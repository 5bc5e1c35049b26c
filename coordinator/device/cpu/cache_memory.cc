#include "coordinator/device/cpu/cache_memory.h"

#include <cstring>

#include "common/base/status.h"
#include "fmt/format.h"

namespace numoe {

absl::Status CacheMemory::Reserve(const KvCacheSpec& spec) {
  spec_ = spec;
  const size_t rows = static_cast<size_t>(spec.layers) * static_cast<size_t>(spec.blocks) *
                      static_cast<size_t>(spec.block_tokens);
  absl::StatusOr<NodeMemory> memory =
      NodeMemory::Allocate(rows * static_cast<size_t>(spec.row.width()) * sizeof(uint16_t));
  if (!memory.ok()) {
    return Annotate(memory.status(),
                    fmt::format("KV cache of {} blocks of {} tokens; lower --max-total-tokens", spec.blocks,
                                spec.block_tokens));
  }
  memory_ = *std::move(memory);
  std::memset(memory_.data(), 0, memory_.size());
  return absl::OkStatus();
}

}  // namespace numoe
