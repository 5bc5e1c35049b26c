// Template values from JSON and as JSON: what a request holds, and what the filter tojson writes.
//
// As Python's json.dumps writes it, byte for byte. Bounded in depth and bytes. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "coordinator/text/chat/jinja_value.h"
#include "nlohmann/json.hpp"

namespace numoe::text::jinja {

/// JSON from the request: every string in it is untrusted.
Value FromJson(const nlohmann::ordered_json& json);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of each level; nullopt: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
/// json.dumps(value); nullopt for what JSON cannot hold (undefined, functions, generators) or is too much.
std::optional<std::string> ToJson(const Value& value, const JsonStyle& style);

}  // namespace numoe::text::jinja
