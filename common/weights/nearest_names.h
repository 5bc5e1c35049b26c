// Suggests what a missing tensor may have been meant to be: the neighbours in name order, usually the same
// layer with another spelling.
//
// It is for error messages of both kinds of checkpoint. A pure function.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>

#include "common/json/json_reader.h"

namespace numoe {

/// Returns "; nearest by name: A, B". `names` is a map ordered by name.
template <typename Map>
std::string NearestNames(const Map& names, std::string_view name) {
  if (names.empty()) return "; the checkpoint holds no tensors";
  auto it = names.lower_bound(name);
  if (it == names.end()) it = std::prev(it);
  std::string text = fmt::format("; nearest by name: {}", Printable(it->first));
  if (it != names.begin()) text += fmt::format(", {}", Printable(std::prev(it)->first));
  return text;
}

}  // namespace numoe
