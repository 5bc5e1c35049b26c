// Messages of clients, translated into the form that templates expect.
#include "coordinator/text/chat/chat_messages.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

ordered_json Normalised(const char* json) {
  const auto out = NormaliseMessages(ordered_json::parse(json));
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? *out : ordered_json();
}

TEST(ChatMessagesTest, PartsAreJoinedAndArgumentsParsed) {
  const auto out = NormaliseMessages(ordered_json::parse(R"([
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "ok"}])"));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0]["content"], "ab");
  EXPECT_EQ((*out)[1]["tool_calls"][0]["function"]["arguments"]["x"], 1);
}

TEST(ChatMessagesTest, ErrorsNameThePlace) {
  const auto error = [](const char* json) {
    return NormaliseMessages(ordered_json::parse(json)).status().ToString();
  };
  EXPECT_THAT(error("[]"), HasSubstr("messages: expected"));
  EXPECT_THAT(error(R"([{"content": "x"}])"), HasSubstr("messages[0].role"));
  EXPECT_THAT(error(R"([{"role": "robot", "content": "x"}])"), HasSubstr("found \"robot\""));
  EXPECT_THAT(error(R"([{"role": "user", "content": 5}])"), HasSubstr("messages[0].content"));
  EXPECT_THAT(error(R"([{"role": "user", "content": [{"type": "image_url"}]}])"),
              HasSubstr("messages[0].content[0].type: expected"));
}

TEST(ChatMessagesTest, ARefusalIsTheAssistantsContent) {
  const ordered_json out = Normalised(R"([
    {"role": "assistant", "content": [{"type": "text", "text": "Sorry. "}, {"type": "refusal", "refusal": "No."}]},
    {"role": "assistant", "content": null, "refusal": "Never."}])");
  EXPECT_EQ(out[0]["content"], "Sorry. No.");
  EXPECT_EQ(out[1]["content"], "Never.");
}

TEST(ChatMessagesTest, ADeveloperMessageBecomesASystemMessage) {
  EXPECT_EQ(Normalised(R"([{"role": "developer", "content": "x"}])")[0]["role"], "system");
}

TEST(ChatMessagesTest, ReasoningHasOneName) {
  EXPECT_EQ(
      Normalised(R"([{"role": "assistant", "content": "", "reasoning": "why"}])")[0]["reasoning_content"],
      "why");
  EXPECT_EQ(
      Normalised(R"([{"role": "assistant", "content": "", "reasoning": "a", "reasoning_content": "b"}])")
          [0]["reasoning_content"],
      "b");
  EXPECT_FALSE(Normalised(R"([{"role": "assistant", "content": "", "reasoning": null}])")[0].contains(
      "reasoning_content"));
  EXPECT_THAT(
      NormaliseMessages(ordered_json::parse(R"([{"role": "assistant", "content": "", "reasoning": 5}])"))
          .status()
          .ToString(),
      HasSubstr("messages[0].reasoning: expected a string or null"));
}

TEST(ChatMessagesTest, CallsHaveTheFieldsThatTemplatesRead) {
  const ordered_json calls = Normalised(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f"}},
    {"function": {"name": "g", "arguments": "not JSON"}}, {"function": {"name": "h", "arguments": "[1]"}}]}])")
      [0]["tool_calls"];
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[0]["function"]["arguments"], ordered_json::object());
  EXPECT_EQ(calls[1]["function"]["arguments"], "not JSON")
      << "arguments that are not an object are unchanged";
  EXPECT_EQ(calls[2]["function"]["arguments"], "[1]");
  EXPECT_FALSE(
      Normalised(R"([{"role": "assistant", "content": "", "tool_calls": null}])")[0].contains("tool_calls"));
}

TEST(ChatMessagesTest, ErrorsOfCallsNameThePlace) {
  const auto error = [](const char* calls) {
    return NormaliseMessages({{{"role", "assistant"}, {"tool_calls", ordered_json::parse(calls)}}})
        .status()
        .ToString();
  };
  EXPECT_THAT(error("5"), HasSubstr("messages[0].tool_calls: expected a list"));
  EXPECT_THAT(error(R"([{"function": {"name": "f"}}, 5])"),
              HasSubstr("messages[0].tool_calls[1].function: expected an object"));
  EXPECT_THAT(error(R"([{"function": {"name": 5}}])"),
              HasSubstr("messages[0].tool_calls[0].function.name: expected a string"));
}

TEST(ChatMessagesTest, OnlyTheAssistantMayHaveNoContent) {
  EXPECT_TRUE(Normalised(R"([{"role": "assistant"}])")[0]["content"].is_null());
  EXPECT_THAT(NormaliseMessages(ordered_json::parse(R"([{"role": "user"}])")).status().ToString(),
              HasSubstr("messages[0].content: expected a string or a list of parts"));
}

}  // namespace
}  // namespace numoe::text
