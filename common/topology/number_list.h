// Lists of numbers as the kernel writes them, "0-3,8": CPUs and NUMA nodes in /proc and /sys.
//
// Reads files below a root, which is "/" except in tests. The functions return nullopt, which means that the
// kernel does not tell, if the file does not exist or does not contain such a list. Pure functions; any
// thread.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace numoe {

using NumberList = std::set<int>;

/// Ignores spaces and line ends after the list. An empty text gives an empty list.
std::optional<NumberList> ParseNumberList(std::string_view text);
/// Reads the list in a file's first line.
std::optional<NumberList> ReadNumberList(const std::filesystem::path& file);
/// Reads the list that follows `key` in /proc/self/status. The key ends with a colon: "Cpus_allowed_list:".
std::optional<NumberList> ReadStatusList(const std::filesystem::path& root, std::string_view key);
/// Returns the list in the kernel's form.
std::string ToText(const NumberList& numbers);

}  // namespace numoe
