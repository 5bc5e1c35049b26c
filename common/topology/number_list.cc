#include "common/topology/number_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "common/base/check.h"

namespace numoe {

std::optional<NumberList> ParseNumberList(std::string_view text) {
  NumberList numbers;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    int first = 0, last = 0;
    const char* const end = part.data() + part.size();
    auto read = std::from_chars(part.data(), end, first);
    last = first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-')
      read = std::from_chars(read.ptr + 1, end, last);
    constexpr int kNumberMax = 1 << 16;
    if (read.ec != std::errc() || read.ptr != end || first < 0 || last < first || last > kNumberMax)
      return std::nullopt;
    for (int n = first; n <= last; ++n) numbers.insert(n);
  }
  return numbers;
}

std::optional<NumberList> ReadNumberList(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return ParseNumberList(line);
}

std::optional<NumberList> ReadStatusList(const std::filesystem::path& root, std::string_view key) {
  NUMOE_CHECK(key.ends_with(':')) << key;
  std::ifstream file(root / "proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", key.size());
    if (begin != std::string::npos) return ParseNumberList(std::string_view(line).substr(begin));
  }
  return std::nullopt;
}

std::string ToText(const NumberList& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const int first = *it;
    int last = first;
    for (++it; it != numbers.end() && *it == last + 1; ++it) last = *it;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

}  // namespace numoe
