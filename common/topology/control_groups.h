// The control groups (cgroups) around a process, and the limits that they set.
//
// A limit may be the process's own group's or that of any group around it, up to the mount: each of them
// counts, the least one rules. Under systemd a process sees the whole tree and lives deep in it; in a
// container it sees its own group as the mount. Version 2 has one tree, version 1 one for each controller;
// a host may have both, so all of them are looked at. Reads files below a root ("/" but in tests); one that
// does not exist limits nothing. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace numoe {

/// Where a process (a number, or "self") is below the mount of `controller`'s tree of version 1, or of
/// version 2's where it is ""; "" in a container that sees its own group as the mount, or where there is
/// no such tree.
std::string ControlGroupOf(const std::filesystem::path& root, std::string_view process,
                           std::string_view controller);
/// This process's groups and all around them as folders, each tree's mount first: of version 2's tree and of
/// `controller`'s of version 1. Their files have different names, so a reader looks for both in each.
std::vector<std::filesystem::path> ControlGroupFolders(const std::filesystem::path& root,
                                                       std::string_view controller);

/// How many CPUs' time this process may use on average; nullopt: as much as there is.
std::optional<double> CpuQuotaOf(const std::filesystem::path& root);
/// Bytes of memory that this process's groups may use; nullopt: no limit.
std::optional<uint64_t> MemoryLimitOf(const std::filesystem::path& root);

}  // namespace numoe
