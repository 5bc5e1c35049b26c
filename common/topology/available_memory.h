// How much more memory this process can take within the limits of the machine and of its cgroups.
//
// Memory that the kernel would free on demand (clean files in the page cache, ZFS's own cache) counts as
// available. Memory that other processes are about to take is not subtracted here: host_memory.h subtracts
// what other NUMoE processes have reserved. Reads /proc and the files of the process's cgroup and of the
// cgroups around it, versions 2 and 1; a file that does not exist sets no limit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace numoe {

/// The machine or a cgroup, each of which bounds this process's memory.
struct MemoryBound {
  enum class Of : uint8_t { kMachine, kGroupVersion2, kGroupVersion1 };  // what sets the bound
  Of of = Of::kMachine;
  std::string group;       // the cgroup's path below its hierarchy's mount; "" is the mount itself
  uint64_t available = 0;  // bytes that are left
};
/// Returns all bounds that the kernel tells.
std::vector<MemoryBound> MemoryBounds(const std::filesystem::path& root = "/");
/// Returns whether the bound also applies to another process. A cgroup that is mounted as the root of its
/// hierarchy bounds every process that is visible here.
bool CountsIn(const MemoryBound& bound, int process, const std::filesystem::path& root = "/");

/// Returns the smallest bound in bytes; UINT64_MAX if there is none. `root` is "/" except in tests.
uint64_t AvailableMemory(const std::filesystem::path& root = "/");

}  // namespace numoe
