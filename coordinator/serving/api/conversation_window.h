// The end of a conversation that fits into the context, where the request asks for it.
//
// Source: OpenAI's `truncation: "auto"` of /v1/responses: items at the beginning of the conversation are left
// out. System and developer messages at the beginning stay. What is left begins at a user's message, or where
// the last turn alone is too long, at a message of the assistant; the result of a call never comes without
// the call. As few messages as possible are left out, and room is kept for the answer: max_tokens, half of
// the context at most. Any thread except a connection's may call it, because long conversations take a while.
#pragma once

#include <variant>
#include <vector>

#include "coordinator/net/http/api_error.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/generation_request.h"

namespace numoe::serving {

/// The request's conversation, rendered and tokenised; its end, where `request.truncation.messages` asks for
/// it and the whole does not fit. What does not fit is the caller's to refuse. 400: the template refuses it.
/// REQUIRES: request.conversation.
std::variant<std::vector<TokenId>, net::ApiError> TokeniseConversation(const GenerationRequest& request,
                                                                       const ApiDeps& deps);

}  // namespace numoe::serving
