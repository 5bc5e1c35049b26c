// Reads the events of a stream with named events: "event: NAME", "data: JSON", an empty line.
//
// Checks the framing, and that the name is the JSON's type (NUMOE_CHECK). Pure function.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "nlohmann/json.hpp"

namespace numoe {

inline std::vector<nlohmann::ordered_json> ReadNamedEvents(std::string_view text) {
  std::vector<nlohmann::ordered_json> events;
  while (!text.empty()) {
    const size_t line = text.find('\n'), end = text.find("\n\n");
    NUMOE_CHECK(end != std::string_view::npos && text.substr(0, 7) == "event: ") << text;
    NUMOE_CHECK(text.substr(line + 1, 6) == "data: ") << text;
    events.push_back(nlohmann::ordered_json::parse(text.substr(line + 7, end - line - 7)));
    NUMOE_CHECK(events.back().at("type") == std::string(text.substr(7, line - 7))) << text;
    text.remove_prefix(end + 2);
  }
  return events;
}

}  // namespace numoe
