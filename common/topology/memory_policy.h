// Memory policies: on which NUMA nodes the kernel makes new pages, and that it leaves them there.
//
// Without a policy a page lies on the node of the thread that first writes it, unless that node is full - of
// other files, even - and automatic NUMA balancing moves it later to whoever reads it. Memory under a policy
// is not moved, whichever it is. kLocal: the node of the thread that first writes a page, another one where
// that is full. kBind: these nodes and no other; the kernel gives up cached files for it and ends processes
// where that is not enough (node_room.h tells before). A container's seccomp profile may refuse policies:
// that is PERMISSION_DENIED, and pages then lie where threads that are bound to CPUs first write them.
// https://docs.kernel.org/admin-guide/mm/numa_memory_policy.html
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

/// Sets the policy of `pages` (whole ones) that nobody has written yet. `nodes`: OS numbers, of kBind.
absl::Status SetMemoryPolicy(absl::Span<std::byte> pages, MemoryPolicy policy, const std::vector<int>& nodes);
/// Binds `pages` (whole ones) to `nodes` and moves those that exist already and that only this process maps.
absl::Status MoveMemory(absl::Span<const std::byte> pages, const std::vector<int>& nodes);
/// Sets the policy of memory that the calling thread, and the threads and processes that it starts from now
/// on, write first, and of files that they bring into the page cache.
absl::Status SetThreadMemoryPolicy(MemoryPolicy policy, const std::vector<int>& nodes);

/// The calling thread's policy while it lives; then the one before. Must be destroyed on the thread that made
/// it. Where the kernel refuses, the thread keeps what it has.
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
  std::set<int> nodes;  // that it names
  /// Whether pages of a thread on one of `home` are made there.
  bool KeepsTo(const std::set<int>& home) const;
};
/// nullopt: none, or the kernel does not say. Reads /proc/self/numa_maps below `root` ("/" but in tests),
/// which no seccomp profile hides. REQUIRES: this process has set no policy of its own.
std::optional<InheritedPolicy> ReadInheritedPolicy(const std::filesystem::path& root);

}  // namespace numoe
