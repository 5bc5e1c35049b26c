// Requests of /v1/responses: items become the messages that templates know, and an error names the place.
#include "coordinator/serving/api/responses_request.h"

#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ParsedResponses = std::variant<GenerationRequest, net::ApiError>;

ParsedResponses ParseResponsesRequest(const std::string& fields, ResponsesFields& out) {
  const auto history = [](const std::string& id) -> std::optional<ordered_json> {
    if (id != "resp_1") return std::nullopt;
    return ordered_json::parse(R"([{"role": "user", "content": "2+2?"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]}])");
  };
  return ReadResponsesRequest(ordered_json::parse("{" + fields + "}"), {.temperature = 0.6}, history, out);
}
ParsedResponses ParseResponsesRequest(const std::string& fields) {
  ResponsesFields ignored;
  return ParseResponsesRequest(fields, ignored);
}

GenerationRequest AcceptedResponsesRequest(const ParsedResponses& parsed) {
  if (const auto* error = std::get_if<net::ApiError>(&parsed)) {
    ADD_FAILURE() << "refused: " << error->message;
    return {};
  }
  return std::get<GenerationRequest>(parsed);
}

std::string RefusedParamResponsesRequest(const ParsedResponses& parsed) {
  const auto* error = std::get_if<net::ApiError>(&parsed);
  if (error == nullptr) return "(accepted)";
  EXPECT_EQ(error->http_status, 400);
  return error->param.value_or("(none)");
}

TEST(ResponsesRequestTest, TextIsAUsersMessage) {
  ResponsesFields fields;
  const GenerationRequest request = AcceptedResponsesRequest(
      ParseResponsesRequest(R"("input": "hi", "instructions": "Be brief.")", fields));
  EXPECT_EQ(request.conversation->messages, ordered_json::parse(R"([
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}])"));
  EXPECT_EQ(request.sampling.temperature, 0.6);
  EXPECT_TRUE(fields.store);
  EXPECT_FALSE(fields.background);
  EXPECT_EQ(fields.input.size(), 1u);
  EXPECT_EQ(fields.repeated.at("instructions"), "Be brief.");
  EXPECT_EQ(fields.repeated.at("tool_choice"), "auto");
}

TEST(ResponsesRequestTest, ItemsOfOneTurnAreOneMessage) {
  const GenerationRequest request = AcceptedResponsesRequest(ParseResponsesRequest(R"("input": [
    {"role": "user", "content": [{"type": "input_text", "text": "Add "}, {"type": "input_text", "text": "them"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"a\": 2}"},
    {"type": "function_call", "call_id": "c2", "name": "now", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "4"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "noon"}]},
    {"type": "function_call", "call_id": "c3", "name": "now", "arguments": "{}"},
    {"type": "message", "role": "developer", "content": "Go on."}])"));
  EXPECT_EQ(request.conversation->messages, ordered_json::parse(R"([
    {"role": "user", "content": "Add them"},
    {"role": "assistant", "content": "ok", "reasoning_content": "hm", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 2}}},
      {"id": "c2", "type": "function", "function": {"name": "now", "arguments": {}}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "tool", "tool_call_id": "c2", "content": "noon"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "c3", "type": "function", "function": {"name": "now", "arguments": {}}}]},
    {"role": "system", "content": "Go on."}])"));
}

TEST(ResponsesRequestTest, ARefusalIsItsText) {
  const GenerationRequest request = AcceptedResponsesRequest(ParseResponsesRequest(
      R"("input": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}])"));
  EXPECT_EQ(request.conversation->messages[0].at("content"), "No.");
}

TEST(ResponsesRequestTest, UnknownFieldsOfItemsAreNotStored) {
  ResponsesFields fields;
  AcceptedResponsesRequest(ParseResponsesRequest(R"("input": [
    {"type": "message", "role": "user", "id": "m1", "note": "xxx",
     "content": [{"type": "input_text", "text": "hi", "note": "xxx"}]},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "extra": {"a": ["xxx"]}},
    {"type": "function_call_output", "call_id": "c", "output": "4", "extra": 1}])",
                                                 fields));
  EXPECT_EQ(fields.input, ordered_json::parse(R"([
    {"type": "message", "role": "user", "id": "m1", "content": [{"type": "input_text", "text": "hi"}]},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "4"}])"));
}

TEST(ResponsesRequestTest, EarlierItemsComeFirst) {
  ResponsesFields fields;
  const GenerationRequest request = AcceptedResponsesRequest(
      ParseResponsesRequest(R"("input": "And 3?", "previous_response_id": "resp_1")", fields));
  EXPECT_EQ(request.conversation->messages, ordered_json::parse(R"([
    {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"},
    {"role": "user", "content": "And 3?"}])"));
  EXPECT_EQ(fields.input.size(), 3u);
  EXPECT_EQ(fields.repeated.at("previous_response_id"), "resp_1");
  const ParsedResponses unknown = ParseResponsesRequest(R"("input": "x", "previous_response_id": "resp_2")");
  EXPECT_EQ(RefusedParamResponsesRequest(unknown), "previous_response_id");
  EXPECT_EQ(std::get<net::ApiError>(unknown).code, "previous_response_not_found");
  EXPECT_EQ(RefusedParamResponsesRequest(
                ParseResponsesRequest(R"("input": [{"role": "x"}], "previous_response_id": "resp_1")")),
            "input[0].role")
      << "the place is the one in the client's request";
}

TEST(ResponsesRequestTest, FieldsWithNamesOfThisApi) {
  ResponsesFields fields;
  const GenerationRequest request = AcceptedResponsesRequest(ParseResponsesRequest(
      R"("input": "x", "max_output_tokens": 7, "temperature": 0.5, "top_p": 0.25, "stream": true, "store": false,
         "n": 1, "metadata": {"k": "v"}, "user": "u", "truncation": "auto", "service_tier": "auto",
         "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "none"},
         "tools": [{"type": "function", "name": "add", "description": "d", "parameters": {"type": "object"},
                    "strict": true}],
         "tool_choice": "auto", "parallel_tool_calls": false,
         "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}})",
      fields));
  EXPECT_EQ(request.sampling.max_tokens, 7);
  EXPECT_TRUE(request.truncation.messages);
  EXPECT_EQ(request.best_of, 1);
  EXPECT_TRUE(request.stream);
  EXPECT_FALSE(fields.store);
  EXPECT_FALSE(request.conversation->calls.parallel);
  EXPECT_EQ(request.conversation->tools, ordered_json::parse(R"([{"type": "function", "function": {
      "name": "add", "description": "d", "parameters": {"type": "object"}, "strict": true}}])"));
  EXPECT_EQ(request.conversation->template_kwargs.at("thinking"), false);
  EXPECT_EQ(request.structure->text, R"({"type":"object"})");
  EXPECT_EQ(fields.repeated.at("metadata"), ordered_json({{"k", "v"}}));
  EXPECT_EQ(fields.repeated.at("temperature"), 0.5);
}

TEST(ResponsesRequestTest, ErrorsNameThePlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("model": "m")", "input"},
      {R"("input": [])", "input"},
      {R"("input": [1])", "input[0]"},
      {R"("input": [{"type": "item_reference", "id": "x"}])", "input[0].type"},
      {R"("input": [{"role": "user", "content": [{"type": "input_image"}]}])", "input[0].content[0].type"},
      {R"("input": [{"role": "user", "content": [{"type": "input_text"}]}])", "input[0].content[0].text"},
      {R"("input": [{"type": "function_call", "call_id": "c"}])", "input[0].name"},
      {R"("input": [{"type": "function_call_output", "output": "x"}])", "input[0].call_id"},
      {R"("input": [{"type": "function_call_output", "call_id": "c", "output": "x"}])", "input[0].call_id"},
      {R"("input": "x", "tools": [{"type": "web_search"}])", "tools[0].type"},
      {R"("input": "x", "tools": [1])", "tools[0]"},
      {R"("input": "x", "tools": [{"type": "function"}])", "tools[0].name"},
      {R"("input": "x", "tool_choice": "sometimes")", "tool_choice"},
      {R"("input": "x", "max_output_tokens": 0)", "max_output_tokens"},
      {R"("input": "x", "reasoning": {"effort": "much"})", "reasoning.effort"},
      {R"("input": "x", "text": {"format": {"type": "xml"}})", "text.format.type"},
      {R"("input": "x", "text": {"format": {"type": "json_schema", "schema": {}}})", "text.format.name"},
      {R"("input": "x", "truncation": "some")", "truncation"},
      {R"("input": "x", "conversation": "c")", "conversation"},
      {R"("input": "x", "metadata": 1)", "metadata"},
      {R"("input": "x", "n": 2)", "n"},
      {R"("input": "x", "best_of": 2)", "best_of"},
      {R"("input": "x", "background": true, "store": false)", "store"},
      {R"("input": "x", "background": true, "stream": true)", "stream"}};
  for (const auto& [fields, param] : cases)
    EXPECT_EQ(RefusedParamResponsesRequest(ParseResponsesRequest(fields)), param) << fields;
  const ParsedResponses search = ParseResponsesRequest(R"("input": "x", "tools": [{"type": "web_search"}])");
  EXPECT_NE(std::get<net::ApiError>(search).message.find("web_search"), std::string::npos);
}

}  // namespace
}  // namespace numoe::serving
