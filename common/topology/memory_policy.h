// Memory policies: they decide on which NUMA nodes the kernel allocates new pages, and keep the pages there.
//
// Without a policy the kernel allocates a page on the node of the thread that first writes it, unless that
// node is full (cached files count, too), and automatic NUMA balancing may later move the page to the node of
// a thread that reads it. Pages under any policy are not moved. kLocal: the page is allocated on the node of
// the thread that first writes it, or on another node if that one is full. kBind: it is allocated on the
// given nodes only; the kernel frees cached files for it, and kills processes if that is not enough
// (node_room.h tells this in advance). A container's seccomp profile may refuse policies: the functions then
// return PERMISSION_DENIED, and pages are allocated on the nodes of the threads, bound to CPUs, that first
// write them. https://docs.kernel.org/admin-guide/mm/numa_memory_policy.html
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace numoe {

enum class MemoryPolicy : uint8_t { kLocal, kBind };

/// Sets the policy of `pages`. `nodes`: OS numbers, for kBind. REQUIRES: these are whole pages, and no thread
/// has written to them yet.
absl::Status SetMemoryPolicy(absl::Span<std::byte> pages, MemoryPolicy policy, const std::vector<int>& nodes);
/// Binds `pages` to `nodes`, and moves the pages that are allocated already and that only this process maps.
/// REQUIRES: these are whole pages.
absl::Status MoveMemory(absl::Span<const std::byte> pages, const std::vector<int>& nodes);
/// Sets the policy of the calling thread and of the threads and processes that it starts from now on. The
/// policy applies to pages that they are the first to write, and to files that they read into the page cache.
absl::Status SetThreadMemoryPolicy(MemoryPolicy policy, const std::vector<int>& nodes);

/// Sets the calling thread's policy; the destructor restores the former one. If the kernel refuses, the
/// thread keeps its policy. REQUIRES: it is destroyed on the thread that made it.
class ScopedMemoryPolicy {
 public:
  ScopedMemoryPolicy(MemoryPolicy policy, const std::vector<int>& nodes);
  ScopedMemoryPolicy(const ScopedMemoryPolicy&) = delete;
  ScopedMemoryPolicy& operator=(const ScopedMemoryPolicy&) = delete;
  ~ScopedMemoryPolicy();

 private:
  static constexpr size_t kNodesMax = 1024;  // the kernel's largest configuration
  bool changed_ = false;
  int mode_ = 0;
  std::array<unsigned long, kNodesMax / (8 * sizeof(unsigned long))> mask_ = {};
};

/// The policy that this process was started under (numactl, systemd's NUMAPolicy=).
struct InheritedPolicy {
  std::string text;     // as the kernel writes it: "bind:0", "interleave:0-1"
  std::set<int> nodes;  // that the policy names
  /// Returns whether the pages of a thread that runs on the nodes `home` are allocated on those nodes.
  bool KeepsTo(const std::set<int>& home) const;
};
/// Returns nullopt if there is no such policy, or if the kernel does not tell. Reads /proc/self/numa_maps,
/// which no seccomp profile hides, below `root`, which is "/" except in tests. REQUIRES: this process has not
/// set a policy.
std::optional<InheritedPolicy> ReadInheritedPolicy(const std::filesystem::path& root);

}  // namespace numoe
