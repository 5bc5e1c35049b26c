// Log-probabilities as JSON, in the shapes that clients know.
//
// Chat: {"content": [{token, logprob, bytes, top_logprobs}]}. Completions: parallel lists {text_offset,
// token_logprobs, tokens, top_logprobs}. Prompts: vLLM's list of {id: {logprob, rank, decoded_token}}. JSON
// has no infinity: -9999 stands for it, as OpenAI has it. Pure functions.
#pragma once

#include <vector>

#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

nlohmann::ordered_json ChatLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                                    const text::Tokenizer& tokenizer);
/// `offset`: where the first token's text begins in the answer; moved behind the last one's.
nlohmann::ordered_json TextLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                                    const text::Tokenizer& tokenizer, int& offset);
nlohmann::ordered_json PromptLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                                      const text::Tokenizer& tokenizer);

}  // namespace numoe::serving
