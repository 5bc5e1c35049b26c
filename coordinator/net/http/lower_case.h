// LowerCase: converts ASCII letters to lower case, for names whose case does not matter: headers, schemes,
// hosts.
//
// Other bytes are not changed. Pure function.
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
