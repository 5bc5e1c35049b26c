// Parses template source into a syntax tree.
//
// By recursive descent with Jinja's precedences; nesting is bounded by limits::kTemplateDepthMax. Errors give
// the line, what was found and what was expected.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/text/chat/jinja_ast.h"

namespace numoe::text::jinja {

absl::StatusOr<Block> Parse(std::string_view source);

}  // namespace numoe::text::jinja
