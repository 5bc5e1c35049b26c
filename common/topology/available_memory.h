// How much memory this process could still take, as the machine and its cgroup have it.
//
// What the kernel would give up for it (clean files in the page cache, ZFS's own cache) counts as available.
// What other processes are about to take is not seen here: host_memory.h knows it of ours, and refuses by
// both. Reads /proc and the files of the process's cgroup and of those around it, version 2 and 1; one that
// does not exist limits nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace numoe {

/// One thing that bounds this process's memory.
struct MemoryBound {
  enum class Of : uint8_t { kMachine, kGroupVersion2, kGroupVersion1 };
  Of of = Of::kMachine;
  std::string group;       // the cgroup's path below its hierarchy's mount; "" is the mount itself
  uint64_t available = 0;  // bytes that are left
};
/// All that say something.
std::vector<MemoryBound> MemoryBounds(const std::filesystem::path& root = "/");
/// Whether the bound is that process's, too. A cgroup that is mounted as the root has every process in view.
bool CountsIn(const MemoryBound& bound, int process, const std::filesystem::path& root = "/");

/// The least of them: bytes; UINT64_MAX where nothing says. `root` is "/" but in tests.
uint64_t AvailableMemory(const std::filesystem::path& root = "/");

}  // namespace numoe
