#include "expert_worker/experts/slice_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/first_error.h"
#include "common/base/status.h"
#include "common/topology/memory_policy.h"

namespace numoe::worker {
namespace {

constexpr size_t kPage = 4096;
constexpr uint64_t kLayerAlignment = uint64_t{2} << 20;
constexpr uint64_t kPopulateBytes = uint64_t{1}
                                    << 30;  // allocated by one thread at a time: a page of the largest size

uint64_t Aligned(uint64_t bytes) { return (bytes + kLayerAlignment - 1) / kLayerAlignment * kLayerAlignment; }

absl::Status PopulateAll(const NodeMemory& memory, HugePages pages, ThreadPool& pool) {
  const auto parts = static_cast<int>((memory.size() + kPopulateBytes - 1) / kPopulateBytes);
  FirstError first_error;
  pool.Run(parts, [&](int part, int) {
    const uint64_t begin = static_cast<uint64_t>(part) * kPopulateBytes;
    first_error.Note(
        PopulatePages(memory.bytes().subspan(begin, std::min(kPopulateBytes, memory.size() - begin)), pages));
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
                                                 const MemoryPlacement& placement, ThreadPool& pool) {
  const MemoryKind& kind = placement.kind;
  const bool reserved = kind.pages != HugePages::kTransparent;
  const bool one_block = reserved || kind.shared;
  SliceMemory memory;
  memory.layers_.resize(static_cast<size_t>(config.num_layers));
  if (one_block) {
    const uint64_t bytes = BlockBytes(layout, config);
    if (reserved) {
      RETURN_IF_ERROR(Annotate(RequireHugePages("/", kind.pages, bytes, placement.nodes),
                               fmt::format("--hugepages={}", HugePagesName(kind.pages))));
    }
    ASSIGN_OR_RETURN(NodeMemory block, NodeMemory::Allocate(bytes, kind));
    if (reserved) {
      // If the kernel refuses, the pages are still right, because the threads that allocate them run on the
      // right node.
      SetMemoryPolicy(block.pages(), MemoryPolicy::kBind, placement.nodes).IgnoreError();
      RETURN_IF_ERROR(PopulateAll(block, kind.pages, pool));
    }
    memory.blocks_.push_back(std::move(block));
  }
  std::vector<absl::Span<std::byte>> parts;  // of one layer each
  uint64_t offset = 0;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    if (one_block) {
      const size_t pages = (layout.layer_bytes(layer) + kPage - 1) / kPage * kPage;
      memory.layers_[static_cast<size_t>(layer)] = memory.blocks_.front().data() + offset;
      parts.push_back(memory.blocks_.front().pages().subspan(offset, pages));
      offset += Aligned(layout.layer_bytes(layer));
      continue;
    }
    ASSIGN_OR_RETURN(NodeMemory block, NodeMemory::Allocate(layout.layer_bytes(layer)));
    memory.layers_[static_cast<size_t>(layer)] = block.data();
    parts.push_back(block.pages());
    memory.blocks_.push_back(std::move(block));
  }
  if (!reserved) {
    RETURN_IF_ERROR(BindMemory(parts, placement, pool));
  }
  return memory;
}

absl::Status SliceMemory::Seal() const { return fd() < 0 ? absl::OkStatus() : blocks_.front().SealContent(); }

MemorySpans SliceMemory::Spans() const {
  MemorySpans spans;
  for (const NodeMemory& block : blocks_) spans.push_back(block.bytes());
  return spans;
}

}  // namespace numoe::worker
