// Log-probabilities as JSON, in the forms that clients know.
//
// Chat: {"content": [{token, logprob, bytes, top_logprobs}]} for the tokens of the message's content, as in
// OpenAI's API; tokens of the reasoning and of calls, with their marks, are in their own lists,
// "reasoning_content" and "tool_calls", if there are any. Completions: parallel lists {text_offset,
// token_logprobs, tokens, top_logprobs}. Prompts: vLLM's list of {id: {logprob, rank, decoded_token}}. JSON
// has no infinity, so -9999 replaces it, as in OpenAI's API. `as_ids`: tokens are named "token_id:123",
// because the texts of tokens need not be unique (vLLM). Pure functions.
#pragma once

#include <vector>

#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/text/parsing/answer.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

/// `parts` has the part that each token belongs to. Returns null if there are no tokens.
nlohmann::ordered_json ChatLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                                    const std::vector<text::AnswerPart>& parts,
                                    const text::Tokenizer& tokenizer, bool as_ids);
/// Returns null if there are no tokens. `offset` is the position of the first token's text in the answer; it
/// becomes the position after the last token's text.
nlohmann::ordered_json TextLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                                    const text::Tokenizer& tokenizer, bool as_ids, int& offset);
nlohmann::ordered_json PromptLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                                      const text::Tokenizer& tokenizer);

}  // namespace numoe::serving
