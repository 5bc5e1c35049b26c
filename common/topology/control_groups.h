// The control groups (cgroups) around a process, and the limits that they set.
//
// The process's own group may set a limit, and so may every group around it, up to the mount; the smallest
// limit applies. Under systemd a process sees the whole tree and is deep in it; in a container it sees its
// own group as the mount. Version 2 has one tree, version 1 has one for each controller; a host may have
// both, so these functions read all of them. They read files below a root, which is "/" except in tests; a
// file that does not exist sets no limit. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace numoe {

/// Returns the path of a process's group below the mount of a tree: the tree of `controller` in version 1, or
/// version 2's tree if `controller` is "". `process` is a number or "self". Returns "" in a container that
/// sees its own group as the mount, and if there is no such tree.
std::string ControlGroupOf(const std::filesystem::path& root, std::string_view process,
                           std::string_view controller);
/// Returns the folders of this process's groups and of all groups around them, each tree's mount first, in
/// version 2's tree and in version 1's tree of `controller`. The versions' files have different names, so a
/// caller looks for both names in each folder.
std::vector<std::filesystem::path> ControlGroupFolders(const std::filesystem::path& root,
                                                       std::string_view controller);

/// Returns how many CPUs this process may use on average (1.5: the time of one and a half CPUs); nullopt if
/// there is no quota.
std::optional<double> CpuQuotaOf(const std::filesystem::path& root);
/// Returns how many bytes of memory this process's groups may use; nullopt if there is no limit.
std::optional<uint64_t> MemoryLimitOf(const std::filesystem::path& root);

}  // namespace numoe
