// JSON from files nobody vouches for: no exceptions, no duplicate keys.
//
// Thin layer over nlohmann::json. ParseStrictJson refuses duplicate keys (two readers could see different values) and
// nesting deeper than 64. Errors name the file and the byte position. Thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace numoe {

absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text, std::string_view file);

}  // namespace numoe
