// JSON from files and clients nobody vouches for: no exceptions, no duplicate keys, bounded nesting.
//
// Thin layer over nlohmann::json. ParseStrictJson refuses duplicate keys (two readers could see different
// values) and nesting deeper than 64. Errors name the file and the byte position. Printable and Brief make
// what a file holds fit for a one-line message: valid UTF-8, control characters escaped, cut to a readable
// length. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace numoe {

absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text, std::string_view file);

/// What a client sent, keys in their order. InvalidArgument: not JSON, nested deeper than 100 (the library
/// recurses once a level when it copies and prints), an object of over 2000 keys (ordered_json looks a key up
/// by walking), or over 200,000 keys in all.
absl::StatusOr<nlohmann::ordered_json> ParseBoundedJson(std::string_view text);

/// On one line. Text that is not UTF-8 is replaced, never an error.
std::string DumpJson(const nlohmann::ordered_json& json);

/// `text` without quotes, at most about 200 bytes of it.
std::string Printable(std::string_view text);
/// `value` as JSON, at most about 200 bytes of it.
std::string Brief(const nlohmann::json& value);

}  // namespace numoe
