// A JSON Schema validator for tests: straight from the specification, and sharing no code with the compiler.
//
// Covers what random_schema.h generates: type, enum, const, lengths, pattern (as std::regex, ASCII), number
// bounds, multipleOf of integers, arrays with prefixItems, objects with properties, patternProperties and
// additionalProperties, allOf, anyOf, oneOf, $ref into the same document. Pure.
#pragma once

#include "nlohmann/json.hpp"

namespace numoe::text {

/// `schema` lies within `root`, where its references lead.
bool IsValid(const nlohmann::json& root, const nlohmann::json& schema, const nlohmann::json& value);

}  // namespace numoe::text
