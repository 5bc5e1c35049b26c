// Lists of numbers as the kernel writes them, "0-3,8": CPUs and NUMA nodes in /proc and /sys.
//
// Reads files below a root ("/" but in tests). A file that does not exist, or holds no such list, gives
// nullopt: the kernel does not say. Pure functions; any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace numoe {

using NumberList = std::set<int>;

/// Spaces and line ends behind the list do not count; an empty text is an empty list.
std::optional<NumberList> ParseNumberList(std::string_view text);
/// Reads the list in a file's first line.
std::optional<NumberList> ReadNumberList(const std::filesystem::path& file);
/// What /proc/self/status has behind `key`, which ends with a colon: "Cpus_allowed_list:".
std::optional<NumberList> ReadStatusList(const std::filesystem::path& root, std::string_view key);
/// The kernel's form again.
std::string ToText(const NumberList& numbers);

}  // namespace numoe
