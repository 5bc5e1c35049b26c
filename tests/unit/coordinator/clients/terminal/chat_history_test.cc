#include "coordinator/clients/terminal/chat_history.h"

#include <gtest/gtest.h>

namespace numoe::clients {
namespace {

using nlohmann::json;

json Sent(const ChatHistory& history) { return json::parse(history.Body(true)); }

ChatHistory OneExchange() {
  ChatHistory history;
  history.SetModel("m");
  history.SetSystem("be brief");
  history.AddQuestion("hi");
  history.AddAnswer({.reasoning = "hm", .content = "hello"});
  return history;
}

TEST(ChatHistory, IsTheRequestThatContinuesIt) {
  ChatHistory history = OneExchange();
  history.AddQuestion("bye");
  EXPECT_EQ(Sent(history),
            json::parse(R"({"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[
      {"role":"system","content":"be brief"},{"role":"user","content":"hi"},
      {"role":"assistant","content":"hello"},{"role":"user","content":"bye"}]})"));
  EXPECT_FALSE(json::parse(history.Body(false)).contains("stream_options"));
}

TEST(ChatHistory, ReasoningIsSentBackOnlyWithCalls) {
  ChatHistory history = OneExchange();
  history.AddAnswer({.reasoning = "look it up", .calls = {{"c1", "f", "{\"a\":1}"}}});
  history.AddToolResult({"c1", "f", "{\"a\":1}"}, "17");
  const json messages = Sent(history)["messages"];
  EXPECT_FALSE(messages[2].contains("reasoning_content"));
  EXPECT_EQ(messages[3],
            json::parse(R"({"role":"assistant","content":"","reasoning_content":"look it up","tool_calls":[
      {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]})"));
  EXPECT_EQ(messages[4], json::parse(R"({"role":"tool","tool_call_id":"c1","name":"f","content":"17"})"));
  EXPECT_EQ(json::parse(history.Save())["messages"][2]["reasoning_content"], "hm") << "kept for reading";
}

TEST(ChatHistory, ParametersAsTheyAreTyped) {
  ChatHistory history;
  const std::pair<const char*, json> cases[] = {
      {".6", 0.6},       {"1", 1},          {"-2.5e-1", -0.25},       {"true", true},
      {"null", nullptr}, {"[1,2]", {1, 2}}, {"low", "low"},           {"1 2", "1 2"},
      {"inf", "inf"},    {"0x10", "0x10"},  {"{\"a\":1}", {{"a", 1}}}};
  for (const auto& [text, value] : cases) {
    ASSERT_TRUE(history.Set("x", text).ok());
    EXPECT_EQ(Sent(history)["x"], value) << text;
  }
  ASSERT_TRUE(history.Set("temperature", ".6").ok());
  EXPECT_EQ(history.Settings(), "x = {\"a\":1}\ntemperature = 0.6\n");
  ASSERT_TRUE(history.Set("x", "").ok());
  EXPECT_FALSE(Sent(history).contains("x"));
  for (const char* name : {"messages", "stream", "n", "model", "tools", "stream_options"})
    EXPECT_FALSE(history.Set(name, "1").ok()) << name;
}

TEST(ChatHistory, SystemMessageIsOneAndFirst) {
  ChatHistory history = OneExchange();
  history.SetSystem("be long");
  EXPECT_EQ(history.system(), "be long");
  EXPECT_EQ(history.messages(), 3u);
  history.Reset();
  EXPECT_EQ(history.messages(), 1u);
  EXPECT_EQ(history.system(), "be long");
  history.SetSystem("");
  EXPECT_EQ(history.messages(), 0u);
}

TEST(ChatHistory, UndoAndReopen) {
  ChatHistory history = OneExchange();
  history.AddQuestion("weather?");
  history.AddAnswer({.calls = {{"c", "f", "{}"}}});
  history.AddToolResult({"c", "f", "{}"}, "17");
  history.AddAnswer({.content = "17"});
  ChatHistory again = history;
  ASSERT_TRUE(again.Reopen());
  EXPECT_EQ(Sent(again)["messages"].back()["content"], "weather?");
  ASSERT_TRUE(history.Undo());
  EXPECT_EQ(history.messages(), 3u) << "calls and results go with their question";
  ASSERT_TRUE(history.Undo());
  EXPECT_FALSE(history.Undo());
  EXPECT_FALSE(history.Reopen());
  EXPECT_EQ(history.system(), "be brief");
}

TEST(ChatHistory, WhatIsSavedCanBeLoaded) {
  ChatHistory history = OneExchange();
  ASSERT_TRUE(history.Set("temperature", "0").ok());
  ASSERT_TRUE(history.SetTools(R"([{"type":"function","function":{"name":"f"}}])").ok());
  ChatHistory other;
  other.SetModel("elsewhere");
  ASSERT_TRUE(other.Load(history.Save()).ok());
  EXPECT_EQ(other.Save(), history.Save());
  EXPECT_EQ(other.model(), "m");
  // A request that another program wrote, and a bare list.
  ASSERT_TRUE(other.Load(R"({"messages":[{"role":"user","content":"x"}],"stream":false,"n":2})").ok());
  EXPECT_EQ(other.model(), "m") << "stays if the file names none";
  EXPECT_FALSE(Sent(other).contains("n"));
  ASSERT_TRUE(other.Load(R"([{"role":"user","content":[{"type":"text","text":"y"}]}])").ok());
  EXPECT_EQ(other.messages(), 1u);
}

TEST(ChatHistory, WrongFilesChangeNothing) {
  ChatHistory history = OneExchange();
  const std::string before = history.Save();
  for (const char* text : {"", "nonsense", "{}", "7", R"({"messages":7})", R"([7])", R"([{"content":"x"}])",
                           R"([{"role":7}])", R"({"messages":[],"tools":{}})"}) {
    EXPECT_FALSE(history.Load(text).ok()) << text;
    EXPECT_EQ(history.Save(), before) << text;
  }
  EXPECT_FALSE(history.SetTools("{}").ok());
}

}  // namespace
}  // namespace numoe::clients
