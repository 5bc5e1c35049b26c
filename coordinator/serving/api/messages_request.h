// Reads and checks the requests of /v1/messages and /v1/messages/count_tokens.
//
// Source: Anthropic's Messages API (version 2023-06-01). Content blocks become the messages that templates
// know: each tool result is a message, thinking is reasoning_content, and a conversation that ends with the
// assistant's text is continued. Errors name the place ("messages[2].content[0]"). Unknown fields are named
// in the request's ignored_fields. Pure functions.
#pragma once

#include <variant>

#include "common/weights/model_config.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

std::variant<GenerationRequest, net::ApiError> ReadMessagesRequest(const nlohmann::ordered_json& body,
                                                                   const GenerationDefaults& defaults);
/// Reads the part that becomes the prompt, which is all that count_tokens needs.
void ReadMessagesConversation(JsonFields& in, GenerationRequest& out);

}  // namespace numoe::serving
