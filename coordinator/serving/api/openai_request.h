// What /v1/chat/completions and /v1/completions are asked, read from JSON and checked.
//
// Source: OpenAI's API description 2.3.0 with the extensions of vLLM and SGLang. Fields that nobody defines
// are ignored; a wrong type or value is an ApiError that names the parameter. Pure functions.
#pragma once

#include <variant>

#include "common/weights/model_config.h"
#include "coordinator/serving/api/declared_functions.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

std::variant<GenerationRequest, net::ApiError> ReadChatRequest(const nlohmann::ordered_json& body,
                                                               const GenerationDefaults& defaults);
std::variant<GenerationRequest, net::ApiError> ReadTextRequest(const nlohmann::ordered_json& body,
                                                               const GenerationDefaults& defaults);

/// SGLang's sampling_params are of /generate alone; elsewhere their fields would be dropped.
void RefuseInnerSampling(JsonFields& in);
/// The conversation's part of a chat request: messages, tools, tool_choice, chat_template_kwargs, ... Also
/// for /tokenize, which is asked what the prompt would be.
void ReadConversation(JsonFields& in, GenerationRequest& out);
/// Checks the conversation's tools, which the client declared in `places`, and reads which of them the answer
/// may call, by OpenAI's tool_choice (null: not given): what every dialect's own form becomes. After messages
/// and tools.
void ReadCalls(JsonFields& in, const DeclarationPlaces& places, const nlohmann::ordered_json* choice,
               bool parallel, Conversation& out);
/// `prompt` of a completion or /tokenize: text, token ids, or a list of either.
void ReadPrompts(JsonFields& in, const char* name, GenerationRequest& out);
/// model, priority, cache_salt, request_id (SGLang: rid), return_token_ids and the like.
void ReadCommon(JsonFields& in, GenerationRequest& out);

}  // namespace numoe::serving
