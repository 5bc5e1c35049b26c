// Checks the functions that a request declares as its tools, by the rules of OpenAI's API description.
//
// Every dialect first brings its tools into the form of chat completions; `DeclarationPlaces` says where the
// client has written each part, so that an error names the place ("tools[0].function.name",
// "tools[0].input_schema"). A name may be longer than OpenAI's and contain dots, as those of MCP servers do.
// Pure function.
#pragma once

#include <optional>
#include <string>

#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

/// Where the parts of a function are in a dialect; appended to "tools[0]".
struct DeclarationPlaces {
  std::string function;    // ".function", or "" if the tool itself has the parts
  std::string parameters;  // ".parameters", or Anthropic's ".input_schema"
};

/// Returns the first error of `tools`, a list in the form of chat completions; nullopt if there is none. A
/// tool without a type gets the type "function", as in vLLM, because templates print it.
std::optional<net::ApiError> CheckDeclaredFunctions(const DeclarationPlaces& places,
                                                    nlohmann::ordered_json& tools);

}  // namespace numoe::serving
