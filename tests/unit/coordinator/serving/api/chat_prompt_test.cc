// Conversations with tool calls, rendered with templates of every kind.
#include "coordinator/serving/api/chat_prompt.h"

#include "coordinator/serving/api/openai_request.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using ::testing::HasSubstr;

constexpr char kConversation[] = R"({"messages": [
  {"role": "user", "content": "u"},
  {"role": "assistant", "content": null, "tool_calls": [
    {"id": "call_1", "function": {"name": "f", "arguments": "{\"a\":1}"}},
    {"id": "call_2", "function": {"name": "g", "arguments": "{}"}}]},
  {"role": "tool", "tool_call_id": "call_2", "content": "2"},
  {"role": "tool", "tool_call_id": "call_1", "content": "1"}]})";

std::string Render(const std::string& source, text::ToolSyntax tools) {
  const auto chat_template = text::ChatTemplate::Parse(source, "t");
  const auto request = ReadChatRequest(nlohmann::ordered_json::parse(kConversation), {});
  EXPECT_TRUE(chat_template.ok() && std::holds_alternative<GenerationRequest>(request));
  const auto segments =
      RenderChat(**chat_template, *std::get<GenerationRequest>(request).conversation, tools, {});
  if (!segments.ok()) return segments.status().ToString();
  std::string text;
  for (const TextSegment& segment : *segments) text += segment.text;
  return text;
}

constexpr char kIds[] =
    "{% for m in messages %}{% for c in m.tool_calls %}[{{ c.id }}]{% endfor %}"
    "{% if m.role == 'tool' %}{{ m.tool_call_id }}={{ m.content }};{% endif %}{% endfor %}";

TEST(ChatPromptTest, IdsAndOrderOfResults) {
  EXPECT_EQ(Render(kIds, text::ToolSyntax::kKimi),
            "[functions.f:0][functions.g:1]functions.f:0=1;functions.g:1=2;");
  EXPECT_EQ(Render(kIds, text::ToolSyntax::kHermes), "[call_1][call_2]call_1=1;call_2=2;");
}

// Templates as published with DeepSeek V3.1, and with Kimi.
TEST(ChatPromptTest, ArgumentsAsTextOrAsObjects) {
  EXPECT_EQ(Render("{% for m in messages %}{% for c in m['tool_calls'] %}{{ c['type'] + ':' + "
                   "c['function']['arguments'] + ';' }}{% endfor %}{% endfor %}",
                   text::ToolSyntax::kDeepSeek),
            "function:{\"a\": 1};function:{};");
  EXPECT_EQ(Render("{% for m in messages %}{% for c in m['tool_calls'] %}"
                   "{{ c['function']['arguments'] | tojson }};{% endfor %}{% endfor %}",
                   text::ToolSyntax::kDeepSeek),
            "{\"a\": 1};{};");
}

// As published with Qwen3, whose template searches in the content; DeepSeek V3's recognises calls by the
// content none.
TEST(ChatPromptTest, ContentOfATurnOfCalls) {
  constexpr char kQwen[] =
      "{% for m in messages %}{% if '</think>' in m.content %}x{% endif %}{% endfor %}ok";
  EXPECT_EQ(Render(kQwen, text::ToolSyntax::kHermes), "ok");
  constexpr char kDeepSeek[] =
      "{% for m in messages %}{% if m['content'] is none %}calls{% endif %}{% endfor %}";
  EXPECT_EQ(Render(kDeepSeek, text::ToolSyntax::kDeepSeek), "calls");
}

TEST(ChatPromptTest, DeclarationsAreSortedForKimiAndComeAsTypeScript) {
  const auto request = ReadChatRequest(
      nlohmann::ordered_json::parse(
          R"({"messages": [{"role": "user", "content": "u"}], "tools": [{"type": "function", "function":
          {"name": "f", "parameters": {"properties": {"x": {"type": "integer"}}}}}]})"),
      {});
  const auto chat_template = text::ChatTemplate::Parse("{{ tools | tojson }}|{{ tools_ts_str }}", "t");
  const auto render = [&](text::ToolSyntax syntax) {
    const auto segments =
        RenderChat(**chat_template, *std::get<GenerationRequest>(request).conversation, syntax, {});
    std::string text;
    for (const TextSegment& segment : *segments) text += segment.text;
    return text;
  };
  EXPECT_EQ(render(text::ToolSyntax::kKimi),
            R"([{"function": {"name": "f", "parameters": {"properties": {"x": {"type": "integer"}}}}, )"
            "\"type\": \"function\"}]|# Tools\n\n## functions\nnamespace functions {\n"
            "type f = (_: {\n  x?: number\n}) => any;\n}\n");
  EXPECT_EQ(render(text::ToolSyntax::kDeepSeek).substr(0, 20), R"([{"type": "function")")
      << "as the client wrote them";
}

TEST(ChatPromptTest, TheTemplatesFirstErrorIsReported) {
  EXPECT_THAT(Render("{{ raise_exception('no ' + messages[1].tool_calls[0].function.arguments | string) }}",
                     text::ToolSyntax::kKimi),
              HasSubstr("no {'a': 1}"));
}

}  // namespace
}  // namespace numoe::serving
