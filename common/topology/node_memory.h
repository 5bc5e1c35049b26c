// NodeMemory: a large block of memory for weights and caches, in huge pages where the kernel grants them.
//
// The memory is anonymous unless the caller asks for another kind: huge pages that an operator reserved
// (huge_pages.h), or shared memory that another process can map by its descriptor. That is a sealed memfd: it
// cannot shrink while the other process uses it, and after SealContent only this process can write to it.
// The kernel allocates pages on the nodes of their memory policy (memory_policy.h), else on the node of the
// thread that first writes them. Containers may forbid policies, so the memory should be filled by threads
// that are bound to the CPUs of its node. It is aligned to 2 MB and zero when new. Move-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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
  /// Returns RESOURCE_EXHAUSTED, with the size, if the system refuses. A block of zero bytes is empty.
  /// Reserved huge pages are set aside for this block, but their nodes are chosen when they are first written
  /// (PopulatePages). Returns FAILED_PRECONDITION if shared memory is asked for and the kernel cannot keep
  /// other processes from writing to it.
  static absl::StatusOr<NodeMemory> Allocate(size_t bytes, const MemoryKind& kind = {});
  NodeMemory() = default;
  NodeMemory(NodeMemory&& other) noexcept;
  NodeMemory& operator=(NodeMemory&& other) noexcept;
  ~NodeMemory();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  absl::Span<std::byte> bytes() const { return {data_, size_}; }
  /// Returns the descriptor of shared memory, whose bytes are the first ones of that file; -1 if the memory
  /// is private.
  int fd() const { return fd_; }
  /// From now on the descriptor cannot be used to write; this mapping stays writable. Call it before another
  /// process gets the descriptor. REQUIRES: the memory is shared.
  absl::Status SealContent() const;
  /// Returns the block's whole pages, because a memory policy applies to whole pages.
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

/// Allocates the pages of `part` now, on the calling thread's node or on those of their policy. Returns
/// RESOURCE_EXHAUSTED if pages are missing, because a later write would end the process then. Kernels
/// before 5.14 cannot do this: ordinary pages are then allocated by writing to them, and reserved ones at
/// their first write. `advice` is madvise's argument, which tests replace. REQUIRES: no thread has written to
/// `part`.
inline constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
absl::Status PopulatePages(absl::Span<std::byte> part, HugePages pages = HugePages::kTransparent,
                           int advice = kPopulateWrite);

using MemorySpans = std::vector<absl::Span<const std::byte>>;

/// Returns the share of the spans' resident memory that is in huge pages, 0 to 1; nullopt if the kernel does
/// not tell. It reads /proc/self/smaps, which takes milliseconds to seconds: call it once at start, not in a
/// loop.
std::optional<double> HugePageShare(const MemorySpans& spans);

/// Returns the share of the spans' resident pages on each node, by OS number, estimated from a sample of the
/// pages in about a millisecond. If the kernel refuses that (seccomp), it calls ReadNodeShares. Returns
/// nullopt if no page is resident, or if neither way works.
std::optional<std::map<int, double>> NodeShares(const MemorySpans& spans);
/// Does the same with /proc/self/numa_maps below `root`, for the whole mappings that contain the spans. It
/// may take seconds, because the kernel walks through all memory of the process.
std::optional<std::map<int, double>> ReadNodeShares(const std::filesystem::path& root,
                                                    const MemorySpans& spans);
/// Returns the sum of the shares of `nodes`; nullopt as for NodeShares.
std::optional<double> LocalShare(const MemorySpans& spans, const std::vector<int>& nodes);

/// Moves pages that only this process maps to `nodes`: for files in the page cache, which are on the node
/// where they were first read. The kernel or the container may refuse some or all of it; LocalShare tells the
/// result. Calls `moved` with the bytes of each part, at most 1 GiB, after the kernel is done with it.
void MoveToNodes(
    const MemorySpans& spans, const std::vector<int>& nodes,
    const std::function<void(uint64_t)>& moved = [](uint64_t) {});

}  // namespace numoe
