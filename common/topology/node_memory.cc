#include "common/topology/node_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace numoe {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

absl::StatusOr<NodeMemory> NodeMemory::Allocate(size_t bytes) {
  NodeMemory memory;
  if (bytes == 0) return memory;
  // Blocks below a huge page gain nothing from alignment.
  const size_t alignment = bytes >= kHugePage ? kHugePage : 4096;
  memory.mapped_ = (bytes + 2 * alignment - 1) / alignment * alignment;
  memory.mapping_ = mmap(nullptr, memory.mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory.mapping_ == MAP_FAILED) {
    memory.mapping_ = nullptr;
    return absl::ResourceExhaustedError(fmt::format("cannot reserve {:.2f} GiB of memory: {}",
                                                    static_cast<double>(bytes) / (1 << 30), std::strerror(errno)));
  }
  const auto address = reinterpret_cast<uintptr_t>(memory.mapping_);
  memory.data_ = reinterpret_cast<std::byte*>((address + alignment - 1) / alignment * alignment);
  memory.size_ = bytes;
  if (alignment == kHugePage) madvise(memory.data_, bytes, MADV_HUGEPAGE);
  return memory;
}

NodeMemory::NodeMemory(NodeMemory&& other) noexcept { *this = std::move(other); }

NodeMemory& NodeMemory::operator=(NodeMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

NodeMemory::~NodeMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

}  // namespace numoe
