// The end of a conversation that fits into the context, if the request asks for truncation.
//
// Source: OpenAI's `truncation: "auto"` of /v1/responses, which leaves out items at the beginning of the
// conversation. System and developer messages at the beginning are kept. The rest begins at a message of the
// user, or, if the last turn alone is too long, at a message of the assistant; the result of a call is never
// kept without the call. As few messages as possible are left out, and room is kept for the answer:
// max_tokens, but at most half of the context. Any thread except a connection's may call it, because long
// conversations take a while.
#pragma once

#include <variant>
#include <vector>

#include "coordinator/net/http/api_error.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/generation_request.h"

namespace numoe::serving {

/// Renders and tokenises the request's conversation, or, if it does not fit and `request.truncation.messages`
/// is set, the end of it. If that does not fit either, the caller must refuse it. 400: the template has
/// refused the conversation. REQUIRES: request.conversation.
std::variant<std::vector<TokenId>, net::ApiError> TokeniseConversation(const GenerationRequest& request,
                                                                       const ApiDeps& deps);

}  // namespace numoe::serving
