#include "coordinator/transport/expert_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"

namespace numoe {
namespace {

absl::Status CheckDirectory(const SharedExperts& directory, const ExpertShare& share) {
  LayerId before = -1;
  for (const SharedLayer& layer : directory.layers) {
    const auto experts = static_cast<uint64_t>(share.held());
    const bool inside =
        layer.offset % kSharedLayerAlignment == 0 && layer.offset <= directory.bytes &&
        layer.expert_bytes <= (directory.bytes - layer.offset) / std::max<uint64_t>(experts, 1);
    if (layer.layer <= before || layer.layer >= limits::kLayersMax || layer.expert_bytes == 0 || !inside) {
      return absl::InvalidArgumentError(fmt::format(
          "shared experts: layer {} after layer {} has {} experts of {} bytes at {}, which is not within {} "
          "bytes",
          layer.layer, before, experts, layer.expert_bytes, layer.offset, directory.bytes));
    }
    before = layer.layer;
  }
  if (directory.layers.empty() || directory.width < 1 || directory.first < 0)
    return absl::InvalidArgumentError("shared experts: the directory is empty");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<ExpertMemory>> ExpertMemory::Map(int fd, SharedExperts directory,
                                                                const ExpertShare& share) {
  auto memory = std::shared_ptr<ExpertMemory>(new ExpertMemory(std::move(directory), share));
  const size_t bytes = memory->directory_.bytes;
  struct stat info {};
  const bool sealed = fstat(fd, &info) == 0 && static_cast<uint64_t>(info.st_size) >= bytes &&
                      (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0;
  absl::Status status = CheckDirectory(memory->directory_, share);
  if (status.ok() && !sealed)
    status = absl::InvalidArgumentError(fmt::format(
        "shared experts: memory of {} bytes, expected {} that cannot shrink", info.st_size, bytes));
  if (status.ok()) {
    // Written by nobody here, but a device's driver may refuse to pin what is mapped to be read.
    void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
      status = absl::InternalError(fmt::format("shared experts: mmap: {}", std::strerror(errno)));
    } else {
      memory->base_ = base;
    }
  }
  close(fd);
  RETURN_IF_ERROR(status);
  return memory;
}

ExpertMemory::~ExpertMemory() {
  pins_.reset();
  if (base_ != nullptr) munmap(base_, directory_.bytes);
}

absl::Span<std::byte> ExpertMemory::Bytes(const SharedLayer& layer) const {
  NUMOE_CHECK(base_ != nullptr);
  return {static_cast<std::byte*>(base_) + layer.offset,
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

bool ExpertMemory::Retire() {
  const MutexLock lock(mutex_);
  if (in_use_) return false;
  pins_.reset();
  if (base_ != nullptr) munmap(base_, directory_.bytes);
  base_ = nullptr;
  return true;
}

}  // namespace numoe
