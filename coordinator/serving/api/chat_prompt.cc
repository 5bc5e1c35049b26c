#include "coordinator/serving/api/chat_prompt.h"

#include <optional>

#include "coordinator/text/chat/tool_history.h"
#include "coordinator/text/chat/typescript_tools.h"

namespace numoe::serving {
namespace {

// Kimi's tokenisers sort the keys of tools, and K2.5's gives the template their TypeScript form.
void DeclareForKimi(text::ChatTemplateInput& input) {
  if (input.tools.is_null()) return;
  input.tools = text::SortKeys(input.tools);
  const std::optional<std::string> typescript = text::ToolsAsTypeScript(input.tools);
  if (!typescript || input.kwargs.contains("tools_ts_str")) return;
  if (input.kwargs.is_null()) input.kwargs = nlohmann::ordered_json::object();
  input.kwargs["tools_ts_str"] = *typescript;
}

}  // namespace

absl::StatusOr<std::vector<TextSegment>> RenderChat(
    const text::ChatTemplate& chat_template, const Conversation& conversation, text::ToolSyntax tools,
    const std::vector<std::pair<std::string, std::string>>& role_tokens) {
  text::ChatTemplateInput input{.messages = conversation.messages,
                                .tools = conversation.tools,
                                .add_generation_prompt = conversation.add_generation_prompt,
                                .continue_final_message = conversation.continue_final_message,
                                .kwargs = conversation.template_kwargs,
                                .role_tokens = role_tokens};
  text::OrderToolResults(input.messages);
  if (tools == text::ToolSyntax::kKimi) {
    text::RewriteCallIds(input.messages, conversation.calls_left_out);
    DeclareForKimi(input);
  }
  if (tools == text::ToolSyntax::kHermes) text::FillEmptyContent(input.messages);
  auto segments = chat_template.Render(input);
  // Most templates print arguments as JSON; some expect them as text.
  if (!segments.ok() && text::SpellArguments(input.messages)) {
    if (auto spelled = chat_template.Render(input); spelled.ok()) return spelled;
  }
  return segments;
}

}  // namespace numoe::serving
