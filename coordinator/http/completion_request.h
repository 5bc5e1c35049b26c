// What /v1/chat/completions and /v1/completions are asked, read from JSON and checked.
//
// Unknown fields are accepted; a wrong type or value is an ApiError that names the parameter. Pure function.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/weights/model_config.h"
#include "coordinator/grammar/compiled_grammar.h"
#include "coordinator/http/api_error.h"
#include "coordinator/scheduler/engine.h"
#include "nlohmann/json.hpp"

namespace numoe {

struct CompletionRequest {
  bool chat = false;
  std::string model;                // as asked; empty: not given
  nlohmann::ordered_json messages;  // chat, normalised
  nlohmann::ordered_json tools;     // chat; null: none, or tool_choice is none
  bool parallel_tool_calls = true;
  nlohmann::ordered_json template_kwargs;
  std::string prompt;                  // completions, as text
  std::vector<TokenId> prompt_tokens;  // completions, as ids
  SamplingParams sampling;
  bool max_tokens_given = false;
  std::vector<std::string> stop;
  std::string cache_salt;
  std::optional<GrammarSource> structure;  // what the answer's text must match
  std::string structure_param;             // the field that asked for it
  bool stream = false;
  bool include_usage = false;
};

std::variant<CompletionRequest, ApiError> ParseCompletionRequest(std::string_view body, bool chat,
                                                                 const GenerationDefaults& defaults);

}  // namespace numoe
