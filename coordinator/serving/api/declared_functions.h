// The functions that a request declares as its tools, checked as OpenAI's document has them.
//
// Every dialect brings its tools into chat completions' form first; `DeclarationPlaces` says where the client
// wrote each part, so that an error names the place ("tools[0].function.name", "tools[0].input_schema"). A
// name may be longer than OpenAI's and have dots, as those of MCP servers do. Pure function.
#pragma once

#include <optional>
#include <string>

#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

/// Where a dialect has the parts of a function, behind "tools[0]".
struct DeclarationPlaces {
  std::string function;    // ".function", or nothing where the tool itself has the parts
  std::string parameters;  // ".parameters", or Anthropic's ".input_schema"
};

/// The first thing that is wrong with `tools`, a list in chat completions' form; none: nothing is. A tool
/// without a type gets "function", as vLLM has it: templates print it.
std::optional<net::ApiError> CheckDeclaredFunctions(const DeclarationPlaces& places,
                                                    nlohmann::ordered_json& tools);

}  // namespace numoe::serving
