// Log-probabilities as JSON, in the shapes that clients know.
//
// Chat: {"content": [{token, logprob, bytes, top_logprobs}]}, the tokens that the message's content has, as
// OpenAI describes it; those of the reasoning and of calls, with their marks, are in lists of their own,
// "reasoning_content" and "tool_calls", where there are any. Completions: parallel lists {text_offset,
// token_logprobs, tokens, top_logprobs}. Prompts: vLLM's list of {id: {logprob, rank, decoded_token}}. JSON
// has no infinity: -9999 stands for it, as OpenAI has it. `as_ids`: tokens are named "token_id:123", because
// texts of tokens need not be unique (vLLM). Pure functions.
#pragma once

#include <vector>

#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/text/parsing/answer.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

/// `parts`: what each token is of. Null: there are no tokens.
nlohmann::ordered_json ChatLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                                    const std::vector<text::AnswerPart>& parts,
                                    const text::Tokenizer& tokenizer, bool as_ids);
/// Null: there are no tokens. `offset`: where the first token's text begins in the answer; moved behind the
/// last one's.
nlohmann::ordered_json TextLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                                    const text::Tokenizer& tokenizer, bool as_ids, int& offset);
nlohmann::ordered_json PromptLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                                      const text::Tokenizer& tokenizer);

}  // namespace numoe::serving
