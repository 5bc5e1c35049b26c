// How much memory this process could still take, as the machine and its cgroup have it.
//
// What the kernel would give up for it (clean files in the page cache) counts as available; what a file
// system keeps for itself (ZFS) does not, so this is an estimate for warnings, not a limit to refuse by.
// Reads /proc and the files of the process's cgroup and of those around it, version 2 and 1; one that does
// not exist limits nothing.
#pragma once

#include <cstdint>
#include <filesystem>

namespace numoe {

/// Bytes; UINT64_MAX where nothing says. `root` is "/" but in tests.
uint64_t AvailableMemory(const std::filesystem::path& root = "/");

}  // namespace numoe
