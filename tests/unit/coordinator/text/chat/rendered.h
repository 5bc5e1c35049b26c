// Renders a template without a ChatTemplate, for tests of a single part of the interpreter.
//
// Expected texts are those of Python's Jinja2 3.1, unless a test says otherwise; testdata/features.json has
// cases with the results of Jinja2 itself.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "coordinator/text/chat/jinja_interpreter.h"
#include "coordinator/text/chat/jinja_parser.h"

namespace numoe::text::jinja {

/// Returns the text, or the message of the error.
inline std::string Rendered(std::string_view source, std::map<std::string, Value> variables = {}) {
  const auto block = Parse(source);
  if (!block.ok()) return std::string(block.status().message());
  const auto text = Interpreter(std::move(variables)).Render(*block);
  return text.ok() ? text->text() : std::string(text.status().message());
}

/// Returns the same for `{{ expression }}`.
inline std::string Printed(std::string_view expression, std::map<std::string, Value> variables = {}) {
  return Rendered("{{ " + std::string(expression) + " }}", std::move(variables));
}

}  // namespace numoe::text::jinja
