// What some engines' chat requests have beside OpenAI's: a last message that is to be continued, documents,
// and an echo.
//
// Moonshot's `partial` and DeepSeek's and Mistral's `prefix` on the last message are continue_final_message
// by another name. `documents` (vLLM, Hugging Face) are the template's; `echo` (vLLM) puts what the last
// message says already before the answer. Errors name the field. Pure functions.
#pragma once

#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

/// `partial` and `prefix` of the last of `messages`, which is as the client sent them.
void ReadOpenMessage(JsonFields& in, const nlohmann::ordered_json& messages, Conversation& out);
/// documents and echo. REQUIRES: the conversation was read, or an error found.
void ReadConversationExtras(JsonFields& in, GenerationRequest& out);

}  // namespace numoe::serving
