// Translates the JSON of a request into template values, and template values into JSON for the filter tojson.
//
// The output equals that of Python's json.dumps, byte for byte. Bounded in depth and bytes. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "coordinator/text/chat/jinja_value.h"
#include "nlohmann/json.hpp"

namespace numoe::text::jinja {

/// Returns the value for JSON of a request. Every string in it is untrusted.
Value FromJson(const nlohmann::ordered_json& json);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // the indentation of a level; nullopt for a single line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
/// Returns json.dumps(value); nullopt for values that JSON cannot contain (undefined, functions, generators),
/// and for values beyond the limits.
std::optional<std::string> ToJson(const Value& value, const JsonStyle& style);

}  // namespace numoe::text::jinja
