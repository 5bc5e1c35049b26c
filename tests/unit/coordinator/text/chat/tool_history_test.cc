// Histories of any client: ids, the order of results, and the number of the next call.
#include "coordinator/text/chat/tool_history.h"

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;

ordered_json Calls(const std::vector<std::pair<std::string, std::string>>& id_and_name) {
  ordered_json message = {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", ordered_json::array()}};
  for (const auto& [id, name] : id_and_name) {
    ordered_json call = {{"function", {{"name", name}, {"arguments", ordered_json::object()}}}};
    if (!id.empty()) call["id"] = id;
    message["tool_calls"].push_back(call);
  }
  return message;
}

ordered_json Result(const std::string& id, const std::string& content) {
  ordered_json message = {{"role", "tool"}, {"content", content}};
  if (!id.empty()) message["tool_call_id"] = id;
  return message;
}

ordered_json User() { return {{"role", "user"}, {"content", "u"}}; }

std::string IdsOf(const ordered_json& messages) {
  std::string out;
  for (const ordered_json& message : messages) {
    for (const ordered_json& call : message.value("tool_calls", ordered_json::array()))
      out += "[" + call.value("id", "") + "]";
    if (message["role"] == "tool")
      out += message.value("tool_call_id", "-") + "=" + message["content"].get<std::string>() + ";";
  }
  return out;
}

// Returns the next number after a turn with calls that have these ids.
int NextAfter(const std::vector<std::string>& ids) {
  std::vector<std::pair<std::string, std::string>> calls;
  for (const std::string& id : ids) calls.emplace_back(id, "f");
  return NextCallNumber(ordered_json::array({User(), Calls(calls)}));
}

TEST(ToolHistoryTest, TheNextNumberIsAboveAllUsedNumbers) {
  EXPECT_EQ(NextCallNumber(ordered_json::array({User()})), 0);
  EXPECT_EQ(NextAfter({"functions.a:0", "x"}), 2);
  EXPECT_EQ(
      NextCallNumber(ordered_json::array({Calls({{"a:0", "a"}, {"x", "b"}}), User(), Calls({{"", "a"}})})),
      3);
  EXPECT_EQ(NextAfter({"functions.a:7"}), 8) << "earlier turns were left out";
  EXPECT_EQ(NextAfter({"a:12345678901234567890", "b:-4", "c:1x", "d:"}), 4);
  EXPECT_EQ(NextAfter({"call:2147483647"}), 1);
}

TEST(ToolHistoryTest, ResultsComeInTheOrderOfTheirCalls) {
  ordered_json messages = {User(),           Calls({{"p", "a"}, {"q", "b"}, {"r", "c"}}),
                           Result("r", "3"), Result("?", "x"),
                           Result("p", "1"), Result("q", "2"),
                           User(),           Calls({{"p", "a"}, {"s", "b"}}),
                           Result("s", "5"), Result("p", "4"),
                           Result("", "y")};
  const ordered_json other = messages[6];
  OrderToolResults(messages);
  EXPECT_EQ(IdsOf(messages), "[p][q][r]p=1;q=2;r=3;?=x;[p][s]p=4;s=5;-=y;");
  EXPECT_EQ(messages[6], other);
}

TEST(ToolHistoryTest, IdsBecomeCanonical) {
  ordered_json messages = {Calls({{"call_9x", "get.weather"}, {"toolu_1", "b"}}),
                           Result("call_9x", "1"),
                           Result("toolu_1", "2"),
                           User(),
                           Calls({{"call_9x", "c"}}),
                           Result("call_9x", "3")};
  RewriteCallIds(messages);
  const std::string expected =
      "[functions.get.weather:0][functions.b:1]functions.get.weather:0=1;functions.b:1=2;"
      "[functions.c:2]functions.c:2=3;";
  EXPECT_EQ(IdsOf(messages), expected);
  RewriteCallIds(messages);
  EXPECT_EQ(IdsOf(messages), expected) << "canonical ids are unchanged";
  RewriteCallIds(messages, 5);
  EXPECT_EQ(IdsOf(messages).substr(0, 39), "[functions.get.weather:5][functions.b:6")
      << "earlier calls were left out";
}

TEST(ToolHistoryTest, ResultsWithoutAKnownIdBelongToTheFirstOpenCall) {
  ordered_json messages = {Calls({{"", "a"}, {"x", "b"}, {"", "c"}}),
                           Result("x", "2"),
                           Result("", "1"),
                           Result("lost", "3"),
                           Result("more", "4"),
                           Result("", "5")};
  RewriteCallIds(messages);
  EXPECT_EQ(IdsOf(messages),
            "[functions.a:0][functions.b:1][functions.c:2]functions.b:1=2;functions.a:0=1;functions.c:2=3;"
            "more=4;-=5;");
}

TEST(ToolHistoryTest, ContentAndArgumentsForTemplatesThatNeedText) {
  ordered_json messages = ordered_json::array({User(), Calls({{"x", "f"}, {"y", "g"}})});
  ordered_json& calls = messages[1]["tool_calls"];
  calls[0]["function"]["arguments"] = ordered_json::parse(R"({"a": [1, 2.5], "ü": {"b": null}})");
  calls[1]["function"]["arguments"] = "not JSON";
  FillEmptyContent(messages);
  EXPECT_EQ(messages[0]["content"], "u");
  EXPECT_EQ(messages[1]["content"], "");
  EXPECT_TRUE(SpellArguments(messages));
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"], R"({"a": [1, 2.5], "ü": {"b": null}})");
  EXPECT_EQ(messages[1]["tool_calls"][1]["function"]["arguments"], "not JSON");
  EXPECT_FALSE(SpellArguments(messages)) << "nothing left to do";
}

}  // namespace
}  // namespace numoe::text
