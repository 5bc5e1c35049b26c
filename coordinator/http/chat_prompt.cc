#include "coordinator/http/chat_prompt.h"

#include "coordinator/chat/tool_history.h"

namespace numoe {

absl::StatusOr<std::vector<TextSegment>> RenderChat(
    const ChatTemplate& chat_template, const CompletionRequest& request, ToolSyntax tools,
    const std::vector<std::pair<std::string, std::string>>& role_tokens) {
  ChatTemplateInput input{.messages = request.messages,
                          .tools = request.tools,
                          .add_generation_prompt = true,
                          .kwargs = request.template_kwargs,
                          .role_tokens = role_tokens};
  OrderToolResults(input.messages);
  if (tools == ToolSyntax::kKimi) RewriteCallIds(input.messages);
  if (tools == ToolSyntax::kHermes) FillEmptyContent(input.messages);
  auto segments = chat_template.Render(input);
  // Most templates print arguments as JSON, some take them for text.
  if (!segments.ok() && SpellArguments(input.messages)) {
    if (auto spelled = chat_template.Render(input); spelled.ok()) return spelled;
  }
  return segments;
}

}  // namespace numoe
