// RenderChat: makes the prompt text of a chat request from its conversation.
//
// Tool results are put in the order of their calls; the ids of calls become Kimi's if the model writes Kimi's
// form; arguments and content get the type that the template accepts. INVALID_ARGUMENT: the template has
// refused the conversation. Pure function.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/text_segment.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/text/chat/chat_template.h"
#include "coordinator/text/parsing/output_format.h"

namespace numoe::serving {

absl::StatusOr<std::vector<TextSegment>> RenderChat(
    const text::ChatTemplate& chat_template, const Conversation& conversation, text::ToolSyntax tools,
    const std::vector<std::pair<std::string, std::string>>& role_tokens);

}  // namespace numoe::serving
