// tools, tool_choice and parallel_tool_calls: what they allow, and which of them an error names.
#include "coordinator/serving/api/tool_choice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using Choice = CallPolicy::Choice;
using Kind = text::GrammarSource::Kind;
using ::testing::HasSubstr;

constexpr char kDeclaredTools[] = R"([
  {"type": "function", "function": {"name": "look", "strict": true, "parameters":
    {"type": "object", "properties": {"at": {"enum": ["a", "b"]}}, "required": ["at"]}}},
  {"type": "function", "function": {"name": "wait", "parameters": {"properties": {"s": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "stop"}}])";

std::variant<CallPolicy, net::ApiError> Read(const std::string& choice,
                                             const std::string& tools = kDeclaredTools,
                                             bool parallel = true) {
  const ordered_json declared = ordered_json::parse(tools), chosen = ordered_json::parse(choice);
  const ordered_json messages = ordered_json::parse(R"([{"role": "user"},
    {"role": "assistant", "tool_calls": [{"id": "x:9"}, {"id": "y"}]}, {"role": "tool"},
    {"role": "assistant", "tool_calls": [{"id": "z"}]}])");
  return ReadCallPolicy({.tools = declared,
                         .choice = chosen.is_null() ? nullptr : &chosen,
                         .messages = messages,
                         .parallel = parallel});
}

CallPolicy AcceptedChoice(const std::variant<CallPolicy, net::ApiError>& read) {
  const auto* error = std::get_if<net::ApiError>(&read);
  EXPECT_EQ(error, nullptr) << error->message;
  return error == nullptr ? std::get<CallPolicy>(read) : CallPolicy();
}

net::ApiError Refused(const std::variant<CallPolicy, net::ApiError>& read) {
  const auto* error = std::get_if<net::ApiError>(&read);
  EXPECT_NE(error, nullptr);
  if (error == nullptr) return {};
  EXPECT_EQ(error->http_status, 400);
  return *error;
}

std::vector<std::string> Names(const CallPolicy& policy) {
  std::vector<std::string> names;
  for (const DeclaredCall& call : policy.calls) names.push_back(call.name);
  return names;
}
using List = std::vector<std::string>;

TEST(ToolChoiceTest, AutoConstrainsTheArgumentsOfStrictTools) {
  for (const char* choice : {"null", R"("auto")"}) {
    const CallPolicy policy = AcceptedChoice(Read(choice));
    EXPECT_EQ(policy.choice, Choice::kAuto);
    EXPECT_EQ(Names(policy), (List{"look", "wait", "stop"}));
    EXPECT_EQ(policy.calls[0].arguments.kind, Kind::kJsonSchema);
    EXPECT_EQ(policy.calls[1].arguments, (text::GrammarSource{Kind::kJsonObject, ""}));
    EXPECT_EQ(policy.first_index, 3) << "calls of the conversation are counted, their ids do not matter";
    EXPECT_TRUE(policy.parallel && !policy.demanded());
  }
  EXPECT_FALSE(AcceptedChoice(Read("null", kDeclaredTools, false)).parallel);
}

TEST(ToolChoiceTest, WithoutToolsOrWithNoneNothingIsCalled) {
  EXPECT_EQ(AcceptedChoice(Read("null", "null")).choice, Choice::kNone);
  EXPECT_EQ(AcceptedChoice(Read(R"("none")", "null")).choice, Choice::kNone);
  EXPECT_EQ(AcceptedChoice(Read(R"("auto")", "null")).choice, Choice::kNone);
  const CallPolicy none = AcceptedChoice(Read(R"("none")"));
  EXPECT_EQ(none.choice, Choice::kNone);
  EXPECT_TRUE(none.calls.empty());
}

TEST(ToolChoiceTest, DemandedCallsMatchTheirSchemas) {
  const CallPolicy policy = AcceptedChoice(Read(R"("required")"));
  EXPECT_EQ(policy.choice, Choice::kRequired);
  EXPECT_EQ(Names(policy), (List{"look", "wait", "stop"}));
  for (const DeclaredCall& call : policy.calls) {
    EXPECT_EQ(call.arguments.kind, Kind::kJsonSchema);
    EXPECT_EQ(ordered_json::parse(call.arguments.text)["type"], "object") << call.name;
  }
  EXPECT_EQ(ordered_json::parse(policy.calls[2].arguments.text)["additionalProperties"], false)
      << "a tool without parameters accepts none";
  EXPECT_FALSE(ordered_json::parse(policy.calls[1].arguments.text).contains("additionalProperties"));
}

TEST(ToolChoiceTest, ANamedToolIsCalledOnce) {
  for (const char* choice :
       {R"({"type": "function", "function": {"name": "wait"}})", R"({"type": "function", "name": "wait"})"}) {
    const CallPolicy policy = AcceptedChoice(Read(choice));
    EXPECT_EQ(policy.choice, Choice::kNamed);
    EXPECT_EQ(Names(policy), List{"wait"});
    EXPECT_FALSE(policy.parallel);
  }
}

TEST(ToolChoiceTest, AllowedToolsAreASubset) {
  const CallPolicy chosen = AcceptedChoice(Read(R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto",
    "tools": [{"type": "function", "function": {"name": "look"}}, {"type": "function", "name": "stop"}]}})"));
  EXPECT_EQ(chosen.choice, Choice::kAuto);
  EXPECT_EQ(Names(chosen), (List{"look", "stop"}));
  const CallPolicy required = AcceptedChoice(Read(
      R"({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "stop"}]})"));
  EXPECT_EQ(required.choice, Choice::kRequired);
  EXPECT_EQ(Names(required), List{"stop"});
}

TEST(ToolChoiceTest, WrongChoicesAreRefused) {
  for (const char* wrong :
       {"1", "true", "[]", "{}", R"("any")", R"({"type": "function"})", R"({"type": "custom", "name": "c"})",
        R"({"type": "function", "function": {"name": 1}})", R"({"type": "function", "name": "nobody"})",
        R"({"type": "function", "function": {"name": "c"}})", R"({"type": "allowed_tools"})",
        R"({"type": "allowed_tools", "mode": "none", "tools": [{"name": "look"}]})",
        R"({"type": "allowed_tools", "mode": "auto", "tools": []})",
        R"({"type": "allowed_tools", "mode": "auto", "tools": [{"name": "nobody"}]})",
        R"({"type": "allowed_tools", "mode": "auto", "tools": [1]})"})
    EXPECT_EQ(Refused(Read(wrong)).param, "tool_choice") << wrong;
  EXPECT_THAT(Refused(Read(R"({"type": "function", "name": "nobody"})")).message, HasSubstr("nobody"));
  EXPECT_EQ(Refused(Read(R"("required")", "null")).param, "tool_choice");
}

}  // namespace
}  // namespace numoe::serving
