#include "expert_worker/experts/slice_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/first_error.h"
#include "common/base/status.h"

namespace numoe {
namespace {

constexpr uint64_t kLayerAlignment = uint64_t{2} << 20;
constexpr uint64_t kPopulateBytes = uint64_t{1} << 30;  // of one thread at a time: a page of the largest size

uint64_t Aligned(uint64_t bytes) { return (bytes + kLayerAlignment - 1) / kLayerAlignment * kLayerAlignment; }

absl::Status PopulateAll(const NodeMemory& memory, ThreadPool& pool) {
  const auto parts = static_cast<int>((memory.size() + kPopulateBytes - 1) / kPopulateBytes);
  FirstError first_error;
  pool.Run(parts, [&](int part, int) {
    const uint64_t begin = static_cast<uint64_t>(part) * kPopulateBytes;
    first_error.Note(
        memory.Populate(memory.bytes().subspan(begin, std::min(kPopulateBytes, memory.size() - begin))));
  });
  return first_error.status();
}

}  // namespace

uint64_t SliceMemory::BlockBytes(const SliceLayout& layout, const ModelConfig& config) {
  uint64_t bytes = 0;
  for (LayerId layer = 0; layer < config.num_layers; ++layer)
    if (config.layer_is_moe[static_cast<size_t>(layer)]) bytes += Aligned(layout.layer_bytes(layer));
  return bytes;
}

absl::StatusOr<SliceMemory> SliceMemory::Reserve(const SliceLayout& layout, const ModelConfig& config,
                                                 const MemoryKind& kind, const std::vector<int>& nodes,
                                                 ThreadPool& pool) {
  const bool reserved = kind.pages != HugePages::kTransparent;
  const bool one_block = reserved || kind.shared;
  SliceMemory memory;
  memory.layers_.resize(static_cast<size_t>(config.num_layers));
  if (one_block) {
    const uint64_t bytes = BlockBytes(layout, config);
    if (reserved) {
      RETURN_IF_ERROR(Annotate(RequireHugePages("/", kind.pages, bytes, nodes),
                               fmt::format("--hugepages={}", HugePagesName(kind.pages))));
    }
    ASSIGN_OR_RETURN(NodeMemory block, NodeMemory::Allocate(bytes, kind));
    if (reserved) {
      RETURN_IF_ERROR(PopulateAll(block, pool));
    }
    memory.blocks_.push_back(std::move(block));
  }
  uint64_t offset = 0;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    if (one_block) {
      memory.layers_[static_cast<size_t>(layer)] = memory.blocks_.front().data() + offset;
      offset += Aligned(layout.layer_bytes(layer));
      continue;
    }
    ASSIGN_OR_RETURN(NodeMemory block, NodeMemory::Allocate(layout.layer_bytes(layer)));
    memory.layers_[static_cast<size_t>(layer)] = block.data();
    memory.blocks_.push_back(std::move(block));
  }
  return memory;
}

MemorySpans SliceMemory::Spans() const {
  MemorySpans spans;
  for (const NodeMemory& block : blocks_) spans.push_back(block.bytes());
  return spans;
}

}  // namespace numoe
