// A chat request as prompt text: its history in the form that the model and its template know, rendered.
//
// Tool results are put in the order of their calls; ids become Kimi's where the model writes Kimi's;
// arguments and content take the type that the template accepts. InvalidArgument is the template's refusal.
// Pure function.
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
