// JSON from untrusted files and clients: no exceptions, no duplicate keys, bounded nesting.
//
// A thin layer over nlohmann::json. ParseStrictJson refuses duplicate keys (two readers could see different
// values) and nesting deeper than 64. Errors name the file and the byte position. Printable and Brief convert
// the content of a file for a message of one line: valid UTF-8, control characters escaped, cut to a readable
// length. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace numoe {

absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text, std::string_view file);

/// Parses what a client sent; the order of keys is kept. InvalidArgument if it is not JSON, is nested deeper
/// than 100 (the library recurses once for each level when it copies and prints), has an object of more than
/// 2000 keys (ordered_json searches keys linearly), or has more than 200,000 keys in all.
absl::StatusOr<nlohmann::ordered_json> ParseBoundedJson(std::string_view text);

/// Returns the JSON text on one line. Bytes that are not UTF-8 are replaced; this is never an error.
std::string DumpJson(const nlohmann::ordered_json& json);

/// Returns `text` without quotes, at most about 200 bytes of it.
std::string Printable(std::string_view text);
/// Returns `value` as JSON, at most about 200 bytes of it.
std::string Brief(const nlohmann::json& value);

}  // namespace numoe
