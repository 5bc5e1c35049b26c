// NodeMemory: a large block of memory for weights and caches, in huge pages where the kernel grants them.
//
// Anonymous memory but where another kind is asked for: pages that an operator reserved (huge_pages.h), or
// memory that another process can map by its descriptor (a sealed memfd: it cannot shrink under the other,
// and from SealContent on only this process writes to it).
// Pages land where a memory policy says (memory_policy.h), else on the node of the thread that first writes
// them: fill it from threads bound to the node it should live on, because containers may forbid policies.
// 2 MB aligned, zero when new. Move-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/topology/huge_pages.h"

namespace numoe {

struct MemoryKind {
  HugePages pages = HugePages::kTransparent;
  bool shared = false;  // has a descriptor
  bool operator==(const MemoryKind&) const = default;
};

class NodeMemory {
 public:
  /// RESOURCE_EXHAUSTED names the size when the system refuses. Zero bytes give an empty block. Reserved huge
  /// pages are promised, but where they lie is decided when they are first written (PopulatePages).
  /// FAILED_PRECONDITION: shared memory of a kernel that cannot keep others from writing to it.
  static absl::StatusOr<NodeMemory> Allocate(size_t bytes, const MemoryKind& kind = {});
  NodeMemory() = default;
  NodeMemory(NodeMemory&& other) noexcept;
  NodeMemory& operator=(NodeMemory&& other) noexcept;
  ~NodeMemory();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  absl::Span<std::byte> bytes() const { return {data_, size_}; }
  /// Of shared memory, whose bytes are the file's first ones; -1: it is private.
  int fd() const { return fd_; }
  /// Of shared memory: from now on the descriptor gives nobody a way to write; this mapping stays writable.
  /// To be called before the descriptor leaves this process.
  absl::Status SealContent() const;
  /// All of them, whole ones: what a memory policy is for.
  absl::Span<std::byte> pages() const { return {data_, paged_}; }

 private:
  absl::Status Map(const MemoryKind& kind);
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t paged_ = 0;  // size_ in whole pages
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  int fd_ = -1;
};

/// Makes the pages of `part` now, on the calling thread's node or where their policy says. RESOURCE_EXHAUSTED
/// where a later write would end the process because its reserved pages are used up. Kernels before 5.14 do
/// not know how: ordinary pages are then written to, reserved ones left to their first write. `advice` is
/// what the kernel is asked for, another one in tests. REQUIRES: nobody has written to `part`.
inline constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
absl::Status PopulatePages(absl::Span<std::byte> part, HugePages pages = HugePages::kTransparent,
                           int advice = kPopulateWrite);

using MemorySpans = std::vector<absl::Span<const std::byte>>;

/// Share of the spans' resident memory that lies in huge pages, 0 to 1; nullopt where the kernel does not
/// say. Reads /proc/self/smaps: milliseconds to seconds, for a start log and not for a loop.
std::optional<double> HugePageShare(const MemorySpans& spans);

/// Share of the spans' resident pages that lie on each node, by OS number, from a sample of pages (about a
/// millisecond); where the kernel refuses that (seccomp) as ReadNodeShares. nullopt: nothing is resident, or
/// nobody says.
std::optional<std::map<int, double>> NodeShares(const MemorySpans& spans);
/// The same from /proc/self/numa_maps below `root`, of the whole mappings that the spans are in: as long as
/// all memory has to be looked through, up to seconds.
std::optional<std::map<int, double>> ReadNodeShares(const std::filesystem::path& root,
                                                    const MemorySpans& spans);
/// The sum over `nodes`.
std::optional<double> LocalShare(const MemorySpans& spans, const std::vector<int>& nodes);

/// Moves pages that only this process maps to `nodes`: for files in the page cache, which lie where they were
/// first read. As far as the kernel and the container let it; LocalShare says how far that was.
void MoveToNodes(const MemorySpans& spans, const std::vector<int>& nodes);

}  // namespace numoe
