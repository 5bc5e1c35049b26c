// Whether the model thinks before it answers, in all the forms in which clients ask for it.
//
// `thinking` {"type": "enabled" | "disabled"} (Moonshot, DeepSeek, GLM, Anthropic), `enable_thinking`
// (DashScope), `reasoning_effort` and `reasoning` {"effort", "enabled", "max_tokens", "exclude"} (OpenAI,
// OpenRouter), `output_config` {"effort"} (Anthropic), or the template's own variables in
// `chat_template_kwargs` (vLLM, SGLang). Switches that contradict each other are refused; an effort counts if
// there is no switch. Pure functions.
#pragma once

#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

/// Sets the variables of the chat template of `out.conversation` (null if nothing was asked for), and the
/// budget of "budget_tokens". Templates have two names for thinking: `thinking` (Kimi-K2.5, DeepSeek) and
/// `enable_thinking` (Qwen3, GLM). `chat_template_kwargs` cannot replace what other fields of the request
/// give to the template, such as `messages`.
void ReadThinking(JsonFields& in, GenerationRequest& out,
                  UnaskedThinking unasked = UnaskedThinking::kAsTrained);
/// Whether a request switches thinking off; errors of the request are not reported.
bool ThinkingIsOff(const nlohmann::ordered_json& body, UnaskedThinking unasked = UnaskedThinking::kAsTrained);

}  // namespace numoe::serving
