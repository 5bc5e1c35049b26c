// What /v1/messages and /v1/messages/count_tokens are asked, read from JSON and checked.
//
// Source: Anthropic's Messages API (version 2023-06-01). Content blocks become the messages that templates
// know: tool results are messages of their own, thinking is reasoning_content, and a conversation that ends
// with the assistant's text is continued. Errors name the place ("messages[2].content[0]"). Unknown fields
// are accepted. Pure functions.
#pragma once

#include <variant>

#include "common/weights/model_config.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

std::variant<GenerationRequest, net::ApiError> ReadMessagesRequest(const nlohmann::ordered_json& body,
                                                                   const GenerationDefaults& defaults);
/// Its part that becomes the prompt; all that count_tokens asks for.
void ReadMessagesConversation(JsonFields& in, GenerationRequest& out);

}  // namespace numoe::serving
