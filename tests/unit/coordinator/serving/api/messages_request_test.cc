// Anthropic's requests: blocks become the messages that templates know, and an error names the place.
#include "coordinator/serving/api/messages_request.h"

#include "coordinator/serving/api/preparation.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

std::variant<GenerationRequest, net::ApiError> Parse(const std::string& fields) {
  return ReadMessagesRequest(ordered_json::parse("{" + fields + "}"), {.temperature = 0.6});
}

// Reads a request with these messages; `more` has further fields.
std::variant<GenerationRequest, net::ApiError> Ask(const std::string& messages,
                                                   const std::string& more = "") {
  return Parse("\"max_tokens\": 9, \"messages\": " + messages + (more.empty() ? "" : ", " + more));
}

GenerationRequest Accepted(const std::variant<GenerationRequest, net::ApiError>& parsed) {
  if (const auto* error = std::get_if<net::ApiError>(&parsed)) {
    ADD_FAILURE() << "refused: " << error->message;
    return {};
  }
  return std::get<GenerationRequest>(parsed);
}

std::string RefusedParam(const std::variant<GenerationRequest, net::ApiError>& parsed) {
  const auto* error = std::get_if<net::ApiError>(&parsed);
  if (error == nullptr) return "(accepted)";
  EXPECT_EQ(error->http_status, 400);
  return error->param.value_or("(none)");
}

constexpr char kHi[] = R"([{"role": "user", "content": "hi"}])";

TEST(MessagesRequestTest, FieldsWithNamesOfThisApi) {
  const GenerationRequest plain = Accepted(Ask(kHi));
  EXPECT_EQ(plain.sampling.max_tokens, 9);
  EXPECT_EQ(plain.sampling.temperature, 0.6);
  EXPECT_FALSE(plain.stream);
  EXPECT_TRUE(plain.conversation->add_generation_prompt);
  EXPECT_EQ(plain.conversation->template_kwargs,
            ordered_json({{"thinking", false}, {"enable_thinking", false}}));
  EXPECT_FALSE(plain.include_reasoning) << "only the field `thinking` switches it on";
  const GenerationRequest full = Accepted(Ask(
      kHi, R"("model": "m", "stream": true, "stop_sequences": ["a", "b"], "temperature": 0.25, "top_p": 0.5,
                  "top_k": 7, "metadata": {"user_id": "u"}, "service_tier": "auto", "n": 1,
                  "thinking": {"type": "enabled", "budget_tokens": 1024},
                  "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}})"));
  EXPECT_EQ(full.model, "m");
  EXPECT_TRUE(full.stream);
  EXPECT_EQ(full.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(full.sampling.temperature, 0.25);
  EXPECT_EQ(full.sampling.top_k, 7);
  EXPECT_EQ(full.best_of, 1) << "a message has one answer";
  EXPECT_EQ(RefusedParam(Ask(R"([{"role": "user", "content": "x"}])", R"("n": 3)")), "n");
  EXPECT_EQ(RefusedParam(Ask(R"([{"role": "user", "content": "x"}])", R"("best_of": 2)")), "best_of");
  EXPECT_EQ(full.conversation->template_kwargs,
            ordered_json({{"thinking", true}, {"enable_thinking", true}}));
  EXPECT_EQ(full.structure->text, R"({"type":"object"})");
  EXPECT_EQ(full.thinking_budget, 1024);
  EXPECT_EQ(Accepted(Ask(kHi, R"("thinking": {"type": "disabled"})")).conversation->template_kwargs,
            ordered_json({{"thinking", false}, {"enable_thinking", false}}));
}

TEST(MessagesRequestTest, BlocksBecomeMessages) {
  const GenerationRequest request = Accepted(Ask(R"([
    {"role": "user", "content": [{"type": "text", "text": "Add "}, {"type": "text", "text": "them",
                                  "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
                                      {"type": "redacted_thinking", "data": "x"},
                                      {"type": "text", "text": "ok"},
                                      {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 2}},
                                      {"type": "tool_use", "id": "t2", "name": "now", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "4"},
                                 {"type": "tool_result", "tool_use_id": "t2", "is_error": true,
                                  "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "clock"}]},
                                 {"type": "text", "text": "Well?"}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t3", "name": "now", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t3"}]}])",
                                                 R"("system": [{"type": "text", "text": "Be brief."},
                                                           {"type": "text", "text": "Be kind."}])"));
  EXPECT_EQ(request.conversation->messages, ordered_json::parse(R"([
    {"role": "system", "content": "Be brief.\nBe kind."},
    {"role": "user", "content": "Add them"},
    {"role": "assistant", "content": "ok", "reasoning_content": "hm", "tool_calls": [
      {"id": "t1", "type": "function", "function": {"name": "add", "arguments": {"a": 2}}},
      {"id": "t2", "type": "function", "function": {"name": "now", "arguments": {}}}]},
    {"role": "tool", "tool_call_id": "t1", "content": "4"},
    {"role": "tool", "tool_call_id": "t2", "content": "Error: no\nclock"},
    {"role": "user", "content": "Well?"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "t3", "type": "function", "function": {"name": "now", "arguments": {}}}]},
    {"role": "tool", "tool_call_id": "t3", "content": ""}])"));
  EXPECT_TRUE(request.conversation->add_generation_prompt);
}

TEST(MessagesRequestTest, TheAssistantsLastMessageIsContinued) {
  const std::string prefill =
      R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": "The"}])";
  const GenerationRequest request = Accepted(Ask(prefill));
  EXPECT_TRUE(request.conversation->continue_final_message);
  EXPECT_FALSE(request.conversation->add_generation_prompt);
}

TEST(MessagesRequestTest, ToolsBecomeFunctions) {
  const std::string tools =
      R"("tools": [{"name": "add", "description": "d", "input_schema": {"type": "object"}, "strict": true},
                   {"type": "custom", "name": "now", "input_schema": {}}])";
  const GenerationRequest request =
      Accepted(Ask(kHi, tools + R"(, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true})"));
  EXPECT_EQ(request.conversation->tools, ordered_json::parse(R"([
    {"type": "function", "function": {"name": "add", "description": "d", "parameters": {"type": "object"},
                                      "strict": true}},
    {"type": "function", "function": {"name": "now", "parameters": {}}}])"));
  EXPECT_FALSE(request.conversation->calls.parallel);
  EXPECT_EQ(request.conversation->calls.choice, CallPolicy::Choice::kAuto);
  EXPECT_EQ(Accepted(Ask(kHi, tools + R"(, "tool_choice": {"type": "any"})")).conversation->calls.choice,
            CallPolicy::Choice::kRequired);
  EXPECT_EQ(Accepted(Ask(kHi, tools + R"(, "tool_choice": {"type": "tool", "name": "now"})"))
                .conversation->calls.calls.at(0)
                .name,
            "now");
  EXPECT_TRUE(
      Accepted(Ask(kHi, tools + R"(, "tool_choice": {"type": "none"})")).conversation->tools.is_null());
}

TEST(MessagesRequestTest, ErrorsNameThePlace) {
  EXPECT_EQ(RefusedParam(Parse(std::string("\"messages\": ") + kHi)), "max_tokens");
  EXPECT_EQ(RefusedParam(Parse("\"max_tokens\": 1")), "messages");
  const std::vector<std::pair<std::string, std::string>> messages = {
      {"[]", "messages"},
      {"[1]", "messages[0]"},
      {R"([{"content": "x"}])", "messages[0].role"},
      {R"([{"role": "tool", "content": "x"}])", "messages[0].role"},
      {R"([{"role": "user"}])", "messages[0].content"},
      {R"([{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image", "source": {}}]}])",
       "messages[0].content[1].type"},
      {R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text"},
      {R"([{"role": "user", "content": [{"type": "tool_result"}]}])", "messages[0].content[0].tool_use_id"},
      {R"([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"}]}])",
       "messages[0].content[0].tool_use_id"},
      {R"([{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
           {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content":
             [{"type": "image"}]}]}])",
       "messages[1].content[0].content[0].type"},
      {R"([{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": 1}]}])",
       "messages[0].content[0].input"},
      {R"([{"role": "assistant", "content": [{"type": "server_tool_use"}]}])", "messages[0].content[0].type"},
      {R"([{"role": "user", "content": [1]}])", "messages[0].content[0]"}};
  for (const auto& [json, param] : messages) EXPECT_EQ(RefusedParam(Ask(json)), param) << json;
  const std::vector<std::pair<std::string, std::string>> fields = {
      {R"("max_tokens": 0)", "max_tokens"},
      {R"("stop_sequences": [1])", "stop_sequences[0]"},
      {R"("system": [{"type": "image"}])", "system[0].type"},
      {R"("tools": [{"type": "web_search_20250305", "name": "web_search"}])", "tools[0].type"},
      {R"("tools": [1])", "tools[0]"},
      {R"("tools": [{"input_schema": {}}])", "tools[0].name"},
      {R"("tools": [{"name": "f", "input_schema": {"type": "array"}}])", "tools[0].input_schema"},
      {R"("tools": [{"name": "f"}])", "tools[0].input_schema"},
      {R"("tool_choice": {"type": "sometimes"})", "tool_choice"},
      {R"("tool_choice": {"type": "tool"})", "tool_choice"},
      {R"("thinking": {"type": "deep"})", "thinking.type"},
      {R"("thinking": {"type": "enabled", "budget_tokens": -1})", "thinking.budget_tokens"},
      {R"("output_config": {"format": {"type": "xml"}})", "output_config.format.type"},
      {R"("output_format": {"type": "json_schema", "schema": 1})", "output_format.schema"},
      {R"("output_format": {"type": "json_object"}, "output_config": {"format": {"type": "json_object"}})",
       "output_format"}};
  for (const auto& [field, param] : fields) EXPECT_EQ(RefusedParam(Ask(kHi, field)), param) << field;
}

}  // namespace
}  // namespace numoe::serving
