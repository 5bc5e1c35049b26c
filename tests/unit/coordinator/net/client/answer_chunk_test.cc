#include "coordinator/net/client/answer_chunk.h"

#include <gtest/gtest.h>

namespace numoe::net {
namespace {

AnswerChunk Read(std::string_view json) {
  const auto chunk = ReadAnswerChunk(json);
  EXPECT_TRUE(chunk.ok()) << chunk.status();
  return chunk.ok() ? *chunk : AnswerChunk{};
}

TEST(AnswerChunk, StreamsOfEveryServer) {
  EXPECT_EQ(Read(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]})").content, "Hi");
  EXPECT_EQ(Read(R"({"choices":[{"text":"Hi","logprobs":null,"finish_reason":null}]})").content, "Hi");
  EXPECT_EQ(Read(R"({"choices":[{"delta":{"reasoning_content":"a","reasoning":"a"}}]})").reasoning, "a");
  EXPECT_EQ(Read(R"({"choices":[{"delta":{"reasoning":"b","content":null}}]})").reasoning, "b");
  const AnswerChunk role = Read(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})");
  EXPECT_TRUE(role.has_choice);
  EXPECT_FALSE(role.says_something());
  EXPECT_EQ(Read(R"({"choices":[{"delta":{},"finish_reason":"length"}]})").finish_reason, "length");
}

TEST(AnswerChunk, CallsInParts) {
  const AnswerChunk first = Read(
      R"({"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}}]})");
  ASSERT_EQ(first.calls.size(), 1u);
  EXPECT_EQ(first.calls[0].index, 1);
  EXPECT_EQ(first.calls[0].id, "c1");
  EXPECT_EQ(first.calls[0].name, "f");
  const AnswerChunk next =
      Read(R"({"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"a\""}}]}}]})");
  EXPECT_EQ(next.calls[0].arguments, "{\"a\"");
  EXPECT_TRUE(next.says_something());
}

TEST(AnswerChunk, WholeAnswer) {
  const AnswerChunk whole = Read(
      R"({"choices":[{"message":{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
      {"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"[]"}}]},
      "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}})");
  EXPECT_EQ(whole.reasoning, "hm");
  ASSERT_EQ(whole.calls.size(), 2u);
  EXPECT_EQ(whole.calls[1].index, 1) << "calls of a complete answer have no index";
  EXPECT_EQ(whole.calls[1].name, "g");
  ASSERT_TRUE(whole.usage.has_value());
  EXPECT_EQ(whole.usage->prompt_tokens, 7);
  EXPECT_EQ(whole.usage->completion_tokens, 3);
  EXPECT_EQ(whole.usage->cached_tokens, 4);
}

TEST(AnswerChunk, UsageWithAndWithoutChoices) {
  const AnswerChunk last = Read(
      R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":null}})");
  EXPECT_FALSE(last.has_choice);
  EXPECT_EQ(last.usage->completion_tokens, 2);
  EXPECT_FALSE(Read(R"({"choices":[{"delta":{}}],"usage":null})").usage.has_value());
}

TEST(AnswerChunk, ErrorsInTheStream) {
  const auto error =
      ReadAnswerChunk(R"({"error":{"message":"worker 1 is gone","type":"x","param":null,"code":null}})");
  EXPECT_EQ(error.status().message(), "the server ended the answer with an error: worker 1 is gone");
  EXPECT_EQ(ReadAnswerChunk(R"({"error":"Unauthorized"})").status().message(),
            "the server ended the answer with an error: Unauthorized");
}

TEST(AnswerChunk, OddShapesAreNotFatal) {
  for (const char* text :
       {"", "nonsense", "[]", "1", "null", "{}", R"({"choices":7})", R"({"choices":null})"}) {
    EXPECT_EQ(ReadAnswerChunk(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  for (const char* text :
       {R"({"choices":[7]})", R"({"choices":[{"delta":[]}]})", R"({"choices":[{"delta":{"content":5}}]})",
        R"({"choices":[{"delta":{"tool_calls":[null,{"function":[]}]}}]})",
        R"({"choices":[{"finish_reason":{}}],"usage":{"prompt_tokens":"x","completion_tokens":-3}})"}) {
    EXPECT_EQ(Read(text).content, "") << text;
  }
}

TEST(HttpError, ContainsTheServersMessage) {
  EXPECT_EQ(HttpError(401, R"({"error":{"message":"wrong API key"}})").message(), "401: wrong API key");
  EXPECT_EQ(HttpError(400, R"({"object":"error","message":"too long"})").message(), "400: too long");
  EXPECT_EQ(HttpError(422, R"({"detail":[{"loc":["body"]}]})").message(), R"(422: [{"loc":["body"]}])");
  EXPECT_EQ(HttpError(502, "<html>Bad Gateway</html>").message(), "502: <html>Bad Gateway</html>");
  EXPECT_EQ(HttpError(500, "").message(), "500: no reason given");
  EXPECT_EQ(HttpError(401, "").code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(HttpError(404, "").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(HttpError(429, "").code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(HttpError(500, std::string(100'000, 'x')).message().size(), 300u);
}

}  // namespace
}  // namespace numoe::net
