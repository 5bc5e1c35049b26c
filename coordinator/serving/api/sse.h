// Server-sent events (WHATWG HTML, 9.2) as OpenAI's and Anthropic's clients read them.
//
// Each event is one line of JSON; text that is not UTF-8 is replaced and never an error. Pure functions.
#pragma once

#include <string>

#include "common/json/json_reader.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

inline constexpr char kSseDone[] = "data: [DONE]\n\n";

inline std::string SseEvent(const nlohmann::ordered_json& json) { return "data: " + DumpJson(json) + "\n\n"; }

/// An event with a name; the responses API and Anthropic's API have names for each kind of event.
inline std::string SseEvent(const std::string& name, const nlohmann::ordered_json& json) {
  return "event: " + name + "\n" + SseEvent(json);
}

}  // namespace numoe::serving
