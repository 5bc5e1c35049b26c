#include "coordinator/execution/transport/expert_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/transport/mailbox_segment.h"

namespace numoe::execution {
namespace {

// More than a process can map; sums of sizes below this limit do not overflow.
constexpr uint64_t kMappedBytesMax = uint64_t{1} << 48;
static_assert(std::has_single_bit(kMappedLayerAlignment) && kMappedBytesMax % kMappedLayerAlignment == 0);

// Rounds up, because a layer begins at a multiple of the alignment.
uint64_t WholeLayers(uint64_t bytes) {
  return (bytes + kMappedLayerAlignment - 1) / kMappedLayerAlignment * kMappedLayerAlignment;
}

absl::Status CheckDirectory(const MappedWeights& directory, const ExpertShare& share) {
  LayerId before = -1;
  uint64_t layers_bytes = 0;
  if (directory.bytes > kMappedBytesMax) {
    return absl::InvalidArgumentError(fmt::format("mapped weights: memory of {} bytes, expected at most {}",
                                                  directory.bytes, kMappedBytesMax));
  }
  for (const MappedLayer& layer : directory.layers) {
    const auto experts = static_cast<uint64_t>(share.held());
    const bool inside =
        layer.offset % kMappedLayerAlignment == 0 && layer.offset <= directory.bytes &&
        layer.expert_bytes <= (directory.bytes - layer.offset) / std::max<uint64_t>(experts, 1);
    if (layer.layer <= before || layer.layer >= limits::kLayersMax || layer.expert_bytes == 0 || !inside) {
      return absl::InvalidArgumentError(
          fmt::format("mapped weights: layer {} (after layer {}) has {} experts of {} bytes at offset {}, "
                      "expected layers in "
                      "ascending order within {} bytes; run the same release on both sides",
                      layer.layer, before, experts, layer.expert_bytes, layer.offset, directory.bytes));
    }
    before = layer.layer;
    layers_bytes += WholeLayers(layer.expert_bytes * experts);
  }
  if (directory.layers.empty() || directory.width < 1 || directory.first < 0)
    return absl::InvalidArgumentError(
        "mapped weights: the directory is empty, expected at least one layer; run the same release on both "
        "sides");
  if (directory.bytes % kMappedLayerAlignment != 0 || directory.bytes > layers_bytes) {
    return absl::InvalidArgumentError(fmt::format(
        "mapped weights: memory of {} bytes, expected at most the {} of its layers, a multiple of {}; "
        "run the same release on both sides",
        directory.bytes, layers_bytes, kMappedLayerAlignment));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<ExpertMemory>> ExpertMemory::Map(FileDescriptor fd, MappedWeights directory,
                                                                const ExpertShare& share) {
  auto memory = std::shared_ptr<ExpertMemory>(new ExpertMemory(std::move(directory), share));
  const size_t bytes = memory->directory_.bytes;
  RETURN_IF_ERROR(CheckDirectory(memory->directory_, share));
  struct stat info {};
  // The seals are checked before the size: memory that cannot shrink any more keeps the size that is read
  // then.
  const bool sealed = HasSeals(fd.get(), F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
  if (fstat(fd.get(), &info) != 0 || !sealed || static_cast<uint64_t>(info.st_size) < bytes) {
    return absl::InvalidArgumentError(
        fmt::format("mapped weights: memory of {} bytes, expected {} that cannot shrink and that only the "
                    "worker can write "
                    "to; run the same release on both sides",
                    info.st_size, bytes));
  }
  void* const base = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (base == MAP_FAILED)
    return absl::InternalError(fmt::format("mapped weights: mmap: {}", std::strerror(errno)));
  memory->base_ = base;
  return memory;
}

ExpertMemory::~ExpertMemory() {
  pins_.reset();
  if (base_ != nullptr) munmap(base_, directory_.bytes);
}

absl::Span<const std::byte> ExpertMemory::Bytes(const MappedLayer& layer) const {
  NUMOE_CHECK(base_ != nullptr);
  NUMOE_CHECK_LE(layer.offset + layer.expert_bytes * static_cast<size_t>(share_.held()), directory_.bytes);
  return {static_cast<const std::byte*>(base_) + layer.offset,
          layer.expert_bytes * static_cast<size_t>(share_.held())};
}

bool ExpertMemory::BeginUse() {
  const MutexLock lock(mutex_);
  in_use_ = base_ != nullptr;
  return in_use_;
}

void ExpertMemory::EndUse() {
  const MutexLock lock(mutex_);
  in_use_ = false;
}

void ExpertMemory::Pin(std::shared_ptr<void> pins) {
  const MutexLock lock(mutex_);
  NUMOE_CHECK(in_use_);
  pins_ = std::move(pins);
}

void ExpertMemory::Unpin() {
  const MutexLock lock(mutex_);
  pins_.reset();
}

bool ExpertMemory::pinned() const {
  const MutexLock lock(mutex_);
  return pins_ != nullptr;
}

bool ExpertMemory::Unmap() {
  const MutexLock lock(mutex_);
  if (in_use_) return false;
  pins_.reset();
  if (base_ != nullptr) munmap(base_, directory_.bytes);
  base_ = nullptr;
  return true;
}

}  // namespace numoe::execution
