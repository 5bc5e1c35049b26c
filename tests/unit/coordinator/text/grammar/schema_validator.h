// A JSON Schema validator for tests, which follows the specification and shares no code with the compiler.
//
// Covers the schemas of random_schema.h: type, enum, const, lengths, pattern (as std::regex, ASCII), number
// bounds, multipleOf of integers, arrays with prefixItems, objects with properties, patternProperties and
// additionalProperties, allOf, anyOf, oneOf, $ref into the same document. A pure function.
#pragma once

#include "nlohmann/json.hpp"

namespace numoe::text {

/// Returns whether `value` satisfies `schema`. `schema` is a part of `root`, in which its references are
/// looked up.
bool IsValid(const nlohmann::json& root, const nlohmann::json& schema, const nlohmann::json& value);

}  // namespace numoe::text
