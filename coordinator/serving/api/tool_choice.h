// CallPolicy: which tools an answer may call, or must call, as the client has asked.
//
// Read from `tools`, `tool_choice` and `parallel_tool_calls` of OpenAI's API. A call names one of `calls`;
// its arguments match the tool's schema if the tool is strict or a call is demanded, and are any JSON object
// otherwise. Values; pure function.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "coordinator/net/http/api_error.h"
#include "coordinator/text/grammar/compiled_grammar.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

struct DeclaredCall {
  std::string name;
  text::GrammarSource arguments;
};

struct CallPolicy {
  enum class Choice : uint8_t {
    kNone,      // no calls: there are no tools, or tool_choice is none
    kAuto,      // the model decides
    kRequired,  // one or more calls and nothing else
    kNamed,     // one call of the only tool in `calls` and nothing else
  };
  Choice choice = Choice::kNone;
  std::vector<DeclaredCall> calls;  // the tools that may be called
  int first_index = 0;   // number of the answer's first call; calls are counted over the conversation
  bool parallel = true;  // false: at most one call

  bool demanded() const { return choice == Choice::kRequired || choice == Choice::kNamed; }
};

struct ToolFields {
  const nlohmann::ordered_json& tools;     // accepted by CheckDeclaredFunctions; null if there are none
  const nlohmann::ordered_json* choice;    // tool_choice; null if it is not given
  const nlohmann::ordered_json& messages;  // normalised
  bool parallel = true;                    // parallel_tool_calls
};

/// tool_choice: none, auto, required, {"type": "function", "function": {"name"}} or {"type": "allowed_tools",
/// "allowed_tools": {"mode": auto or required, "tools"}}; also without the inner object, as in /v1/responses.
std::variant<CallPolicy, net::ApiError> ReadCallPolicy(const ToolFields& fields);

}  // namespace numoe::serving
