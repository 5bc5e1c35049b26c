// LowerCase: text whose ASCII letters do not count by their case: names of headers, schemes and hosts.
//
// Other bytes stay as they are. Pure function.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace numoe::net {

inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

}  // namespace numoe::net
