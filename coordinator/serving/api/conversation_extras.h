// Fields of some engines' chat requests that OpenAI does not have: a last message that is to be continued,
// documents, and echo.
//
// `partial` (Moonshot) and `prefix` (DeepSeek, Mistral) of the last message mean continue_final_message.
// `documents` (vLLM, Hugging Face) are given to the template; `echo` (vLLM) repeats the text of the last
// message before the answer. Errors name the field. Pure functions.
#pragma once

#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

/// Reads `partial` and `prefix` of the last one of `messages`, which are as the client sent them.
void ReadOpenMessage(JsonFields& in, const nlohmann::ordered_json& messages, Conversation& out);
/// Reads documents and echo. REQUIRES: the conversation was read, or an error was found.
void ReadConversationExtras(JsonFields& in, GenerationRequest& out);

}  // namespace numoe::serving
