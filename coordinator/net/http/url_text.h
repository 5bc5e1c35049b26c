// Parts of a request target: its percent-decoded path and its query fields (RFC 3986, 2.1 and 3.4).
//
// A percent sign without two hexadecimal digits is kept; '+' means a space only in queries. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace numoe::net {

std::string PercentDecode(std::string_view text, bool plus_is_space);
/// "/a%20b?x=1&y" -> "/a b" and {{"x", "1"}, {"y", ""}}
std::string PathOf(std::string_view target);
std::vector<std::pair<std::string, std::string>> QueryOf(std::string_view target);

}  // namespace numoe::net
