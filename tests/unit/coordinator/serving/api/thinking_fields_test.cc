// Thinking: every field with which clients switch it, and fields that contradict each other.
#include "coordinator/serving/api/thinking_fields.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

// The variables that the template gets, or the place of the error.
ordered_json Kwargs(const char* json) {
  const ordered_json body = ordered_json::parse(json);
  JsonFields in(body);
  GenerationRequest request;
  request.conversation.emplace();
  ReadThinking(in, request);
  if (!in.error()) return request.conversation->template_kwargs;
  EXPECT_EQ(in.error()->http_status, 400);
  return *in.error()->param;
}

const ordered_json kOn = {{"thinking", true}, {"enable_thinking", true}};
const ordered_json kOff = {{"thinking", false}, {"enable_thinking", false}};

TEST(ThinkingFieldsTest, EverySwitchSetsBothVariablesOfTheTemplate) {
  for (const char* on : {R"({"thinking": {"type": "enabled", "budget_tokens": 9}})",
                         R"({"enable_thinking": true})", R"({"reasoning": {"enabled": true}})"}) {
    EXPECT_EQ(Kwargs(on), kOn) << on;
    EXPECT_FALSE(ThinkingIsOff(ordered_json::parse(on)));
  }
  for (const char* off : {R"({"thinking": {"type": "disabled"}})", R"({"enable_thinking": false})",
                          R"({"reasoning": {"enabled": false}})"}) {
    EXPECT_EQ(Kwargs(off), kOff) << off;
    EXPECT_TRUE(ThinkingIsOff(ordered_json::parse(off)));
  }
  for (const char* silent :
       {"{}", R"({"thinking": null, "enable_thinking": null, "reasoning": null})",
        R"({"thinking": {"type": "adaptive"}})", R"({"reasoning": {"summary": "auto"}})"}) {
    EXPECT_TRUE(Kwargs(silent).is_null()) << silent;
    EXPECT_FALSE(ThinkingIsOff(ordered_json::parse(silent)));
  }
}

TEST(ThinkingFieldsTest, AnEffortSwitchesThinkingIfThereIsNoSwitch) {
  EXPECT_EQ(Kwargs(R"({"reasoning_effort": "none"})"),
            ordered_json({{"thinking", false}, {"enable_thinking", false}, {"reasoning_effort", "none"}}));
  EXPECT_EQ(Kwargs(R"({"reasoning": {"effort": "low"}})"),
            ordered_json({{"thinking", true}, {"enable_thinking", true}, {"reasoning_effort", "low"}}));
  EXPECT_EQ(Kwargs(R"({"reasoning_effort": "high", "thinking": {"type": "disabled"}})"),
            ordered_json({{"thinking", false}, {"enable_thinking", false}, {"reasoning_effort", "high"}}));
  EXPECT_EQ(Kwargs(R"({"output_config": {"effort": "low"}})"), ordered_json({{"reasoning_effort", "low"}}))
      << "Anthropic's effort switches nothing";
  EXPECT_EQ(Kwargs(R"({"output_config": {"effort": "lots"}})"), "output_config.effort");
  EXPECT_TRUE(ThinkingIsOff({{"reasoning_effort", "none"}}));
}

TEST(ThinkingFieldsTest, TheTemplatesOwnVariablesAreKept) {
  EXPECT_EQ(Kwargs(R"({"chat_template_kwargs": {"thinking": false, "x": 1}})"),
            ordered_json({{"thinking", false}, {"x", 1}}));
  EXPECT_TRUE(ThinkingIsOff(ordered_json::parse(R"({"chat_template_kwargs": {"enable_thinking": false}})")));
  EXPECT_EQ(Kwargs(R"({"chat_template_kwargs": {"thinking": false}, "enable_thinking": false})"),
            ordered_json({{"thinking", false}}));
}

TEST(ThinkingFieldsTest, VariablesCannotReplaceOtherFields) {
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt",
                           "continue_final_message", "chat_template", "tokenize"}) {
    const ordered_json body = {{"chat_template_kwargs", {{name, ordered_json::array()}}}};
    EXPECT_EQ(Kwargs(body.dump().c_str()), std::string("chat_template_kwargs.") + name);
  }
}

// In Anthropic's API a model thinks only if the request asks for it.
TEST(ThinkingFieldsTest, WithThinkingOffByDefaultARequestSwitchesItOn) {
  const auto read = [](const char* json) {
    const ordered_json body = ordered_json::parse(json);
    JsonFields in(body);
    GenerationRequest request;
    request.conversation.emplace();
    ReadThinking(in, request, UnaskedThinking::kOff);
    EXPECT_FALSE(in.error().has_value()) << json;
    return request;
  };
  for (const char* off : {"{}", R"({"thinking": {"type": "disabled"}})", R"({"reasoning_effort": "none"})"}) {
    const GenerationRequest request = read(off);
    EXPECT_EQ(request.conversation->template_kwargs["thinking"], false) << off;
    EXPECT_EQ(request.conversation->template_kwargs["enable_thinking"], false) << off;
    EXPECT_TRUE(ThinkingIsOff(ordered_json::parse(off), UnaskedThinking::kOff));
  }
  EXPECT_FALSE(read("{}").include_reasoning) << "also for a model that always thinks";
  EXPECT_FALSE(read(R"({"thinking": {"type": "disabled"}})").include_reasoning);
  for (const char* on :
       {R"({"thinking": {"type": "enabled", "budget_tokens": 9}})", R"({"thinking": {"type": "adaptive"}})",
        R"({"enable_thinking": true})", R"({"reasoning_effort": "low"})",
        R"({"chat_template_kwargs": {"thinking": true}})"}) {
    EXPECT_TRUE(read(on).include_reasoning) << on;
    EXPECT_FALSE(ThinkingIsOff(ordered_json::parse(on), UnaskedThinking::kOff)) << on;
  }
  EXPECT_TRUE(read(R"({"thinking": {"type": "adaptive"}})").conversation->template_kwargs.is_null());
}

TEST(ThinkingFieldsTest, SwitchesThatContradictEachOtherAreRefused) {
  EXPECT_EQ(Kwargs(R"({"chat_template_kwargs": {"thinking": true}, "thinking": {"type": "disabled"}})"),
            "thinking");
  EXPECT_EQ(Kwargs(R"({"thinking": {"type": "enabled"}, "enable_thinking": false})"), "enable_thinking");
  EXPECT_EQ(Kwargs(R"({"enable_thinking": true, "reasoning": {"enabled": false}})"), "reasoning.enabled");
  const ordered_json body =
      ordered_json::parse(R"({"thinking": {"type": "enabled"}, "enable_thinking": false})");
  JsonFields in(body);
  GenerationRequest request;
  request.conversation.emplace();
  ReadThinking(in, request);
  EXPECT_THAT(in.error()->message, HasSubstr("the same as 'thinking', which switches thinking on"));
}

TEST(ThinkingFieldsTest, ABudgetCountsTokens) {
  const ordered_json body = {{"thinking", {{"type", "enabled"}, {"budget_tokens", 9}}}};
  JsonFields in(body);
  GenerationRequest request;
  request.conversation.emplace();
  ReadThinking(in, request);
  EXPECT_EQ(request.thinking_budget, 9);
  EXPECT_EQ(request.thinking_budget_param, "thinking");
}

TEST(ThinkingFieldsTest, ErrorsOfValuesNameThePlace) {
  EXPECT_EQ(Kwargs(R"({"thinking": true})"), "thinking");
  EXPECT_EQ(Kwargs(R"({"thinking": {}})"), "thinking.type");
  EXPECT_EQ(Kwargs(R"({"thinking": {"type": "enabled", "budget_tokens": "9"}})"), "thinking.budget_tokens");
  EXPECT_EQ(Kwargs(R"({"enable_thinking": "no"})"), "enable_thinking");
  EXPECT_EQ(Kwargs(R"({"reasoning_effort": "lots"})"), "reasoning_effort");
  EXPECT_EQ(Kwargs(R"({"reasoning": {"effort": 1}})"), "reasoning.effort");
  EXPECT_EQ(Kwargs(R"({"chat_template_kwargs": []})"), "chat_template_kwargs");
}

}  // namespace
}  // namespace numoe::serving
