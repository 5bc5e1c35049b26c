// Reads and checks the requests of /v1/chat/completions and /v1/completions.
//
// Source: OpenAI's API description 2.3.0 with the extensions of vLLM and SGLang. Unknown fields are named in
// the request's ignored_fields; a wrong type or value is an ApiError that names the parameter. Pure
// functions.
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

/// Refuses SGLang's sampling_params, which only /generate has; other routes would drop its fields.
void RefuseInnerSampling(JsonFields& in);
/// Reads the conversation of a chat request: messages, tools, tool_choice, chat_template_kwargs and so on.
/// Also used by /tokenize, which returns the prompt's tokens.
void ReadConversation(JsonFields& in, GenerationRequest& out);
/// Checks the conversation's tools, which the client declared in `places`, and reads which of them the answer
/// may call. `choice` has the form of OpenAI's tool_choice, into which every dialect converts its own (null
/// if there is none). Call it after messages and tools were read.
void ReadCalls(JsonFields& in, const DeclarationPlaces& places, const nlohmann::ordered_json* choice,
               bool parallel, Conversation& out);
/// Reads the prompt of a completion or of /tokenize: text, token ids, or a list of either.
void ReadPrompts(JsonFields& in, const char* name, GenerationRequest& out);
/// Reads model, priority, cache_salt, request_id (SGLang: rid), return_token_ids and the like.
void ReadCommon(JsonFields& in, GenerationRequest& out);

}  // namespace numoe::serving
