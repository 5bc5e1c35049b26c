#include "coordinator/terminal/conversation.h"

#include <gtest/gtest.h>

namespace numoe {
namespace {

using nlohmann::json;

json Sent(const Conversation& conversation) { return json::parse(conversation.Body(true)); }

Conversation OneExchange() {
  Conversation conversation;
  conversation.SetModel("m");
  conversation.SetSystem("be brief");
  conversation.AddQuestion("hi");
  conversation.AddAnswer({.reasoning = "hm", .content = "hello"});
  return conversation;
}

TEST(Conversation, IsTheRequestThatContinuesIt) {
  Conversation conversation = OneExchange();
  conversation.AddQuestion("bye");
  EXPECT_EQ(Sent(conversation),
            json::parse(R"({"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[
      {"role":"system","content":"be brief"},{"role":"user","content":"hi"},
      {"role":"assistant","content":"hello"},{"role":"user","content":"bye"}]})"));
  EXPECT_FALSE(json::parse(conversation.Body(false)).contains("stream_options"));
}

TEST(Conversation, ReasoningGoesBackOnlyBesideCalls) {
  Conversation conversation = OneExchange();
  conversation.AddAnswer({.reasoning = "look it up", .calls = {{"c1", "f", "{\"a\":1}"}}});
  conversation.AddToolResult({"c1", "f", "{\"a\":1}"}, "17");
  const json messages = Sent(conversation)["messages"];
  EXPECT_FALSE(messages[2].contains("reasoning_content"));
  EXPECT_EQ(messages[3],
            json::parse(R"({"role":"assistant","content":"","reasoning_content":"look it up","tool_calls":[
      {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]})"));
  EXPECT_EQ(messages[4], json::parse(R"({"role":"tool","tool_call_id":"c1","name":"f","content":"17"})"));
  EXPECT_EQ(json::parse(conversation.Save())["messages"][2]["reasoning_content"], "hm") << "kept for reading";
}

TEST(Conversation, ParametersAsTheyAreTyped) {
  Conversation conversation;
  const std::pair<const char*, json> cases[] = {
      {".6", 0.6},       {"1", 1},          {"-2.5e-1", -0.25},       {"true", true},
      {"null", nullptr}, {"[1,2]", {1, 2}}, {"low", "low"},           {"1 2", "1 2"},
      {"inf", "inf"},    {"0x10", "0x10"},  {"{\"a\":1}", {{"a", 1}}}};
  for (const auto& [text, value] : cases) {
    ASSERT_TRUE(conversation.Set("x", text).ok());
    EXPECT_EQ(Sent(conversation)["x"], value) << text;
  }
  ASSERT_TRUE(conversation.Set("temperature", ".6").ok());
  EXPECT_EQ(conversation.Settings(), "x = {\"a\":1}\ntemperature = 0.6\n");
  ASSERT_TRUE(conversation.Set("x", "").ok());
  EXPECT_FALSE(Sent(conversation).contains("x"));
  for (const char* name : {"messages", "stream", "n", "model", "tools", "stream_options"})
    EXPECT_FALSE(conversation.Set(name, "1").ok()) << name;
}

TEST(Conversation, SystemMessageIsOneAndFirst) {
  Conversation conversation = OneExchange();
  conversation.SetSystem("be long");
  EXPECT_EQ(conversation.system(), "be long");
  EXPECT_EQ(conversation.messages(), 3u);
  conversation.Reset();
  EXPECT_EQ(conversation.messages(), 1u);
  EXPECT_EQ(conversation.system(), "be long");
  conversation.SetSystem("");
  EXPECT_EQ(conversation.messages(), 0u);
}

TEST(Conversation, UndoAndReopen) {
  Conversation conversation = OneExchange();
  conversation.AddQuestion("weather?");
  conversation.AddAnswer({.calls = {{"c", "f", "{}"}}});
  conversation.AddToolResult({"c", "f", "{}"}, "17");
  conversation.AddAnswer({.content = "17"});
  Conversation again = conversation;
  ASSERT_TRUE(again.Reopen());
  EXPECT_EQ(Sent(again)["messages"].back()["content"], "weather?");
  ASSERT_TRUE(conversation.Undo());
  EXPECT_EQ(conversation.messages(), 3u) << "calls and results go with their question";
  ASSERT_TRUE(conversation.Undo());
  EXPECT_FALSE(conversation.Undo());
  EXPECT_FALSE(conversation.Reopen());
  EXPECT_EQ(conversation.system(), "be brief");
}

TEST(Conversation, WhatIsSavedCanBeLoaded) {
  Conversation conversation = OneExchange();
  ASSERT_TRUE(conversation.Set("temperature", "0").ok());
  ASSERT_TRUE(conversation.SetTools(R"([{"type":"function","function":{"name":"f"}}])").ok());
  Conversation other;
  other.SetModel("elsewhere");
  ASSERT_TRUE(other.Load(conversation.Save()).ok());
  EXPECT_EQ(other.Save(), conversation.Save());
  EXPECT_EQ(other.model(), "m");
  // A request as others write it, and a bare list.
  ASSERT_TRUE(other.Load(R"({"messages":[{"role":"user","content":"x"}],"stream":false,"n":2})").ok());
  EXPECT_EQ(other.model(), "m") << "stays where the file names none";
  EXPECT_FALSE(Sent(other).contains("n"));
  ASSERT_TRUE(other.Load(R"([{"role":"user","content":[{"type":"text","text":"y"}]}])").ok());
  EXPECT_EQ(other.messages(), 1u);
}

TEST(Conversation, WrongFilesChangeNothing) {
  Conversation conversation = OneExchange();
  const std::string before = conversation.Save();
  for (const char* text : {"", "nonsense", "{}", "7", R"({"messages":7})", R"([7])", R"([{"content":"x"}])",
                           R"([{"role":7}])", R"({"messages":[],"tools":{}})"}) {
    EXPECT_FALSE(conversation.Load(text).ok()) << text;
    EXPECT_EQ(conversation.Save(), before) << text;
  }
  EXPECT_FALSE(conversation.SetTools("{}").ok());
}

}  // namespace
}  // namespace numoe
