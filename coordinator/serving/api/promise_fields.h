// Fields with which a request limits its prompt, its reasoning and its text: promises that its answer keeps.
//
// truncate_prompt_tokens and truncation_side (vLLM), bad_words (vLLM), stop_regex (SGLang), and the number of
// reasoning tokens: thinking_token_budget (vLLM), thinking_budget (Qwen), reasoning_budget_tokens
// (llama.cpp). They are read with the sampling parameters of every dialect. Pure functions.
#pragma once

#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

void ReadPromises(JsonFields& in, GenerationRequest& out);
/// Reads n_predict, llama.cpp's name for max_tokens, which takes precedence if both are given.
void ReadPredict(JsonFields& in, GenerationRequest& out);

}  // namespace numoe::serving
