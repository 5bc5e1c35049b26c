// Limits of prompt, reasoning and text: what each field accepts, and that an error names the field.
#include "coordinator/serving/api/promise_fields.h"

#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

struct Promised {
  explicit Promised(const char* json) {
    const ordered_json root = ordered_json::parse(json);
    JsonFields in(root);
    ReadPromises(in, request);
    if (in.error()) param = in.error()->param.value_or("(none)");
  }
  GenerationRequest request;
  std::string param;
};

TEST(PromiseFieldsTest, WithoutTheFieldsThereAreNoLimits) {
  for (const char* json : {"{}", R"({"bad_words": null, "stop_regex": [], "thinking_budget": -1})"}) {
    const Promised read(json);
    EXPECT_EQ(read.param, "") << json;
    EXPECT_EQ(read.request.truncation.tokens, 0);
    EXPECT_TRUE(read.request.bad_words.empty() && read.request.stop_patterns.empty());
    EXPECT_FALSE(read.request.thinking_budget.has_value());
  }
}

TEST(PromiseFieldsTest, EveryFieldIsRead) {
  const Promised read(R"({"truncate_prompt_tokens": -1, "truncation_side": "right", "bad_words": ["a", "b c"],
                          "stop_regex": "x+y", "thinking_token_budget": 0})");
  EXPECT_EQ(read.param, "");
  EXPECT_EQ(read.request.truncation.tokens, -1);
  EXPECT_TRUE(read.request.truncation.keep_first);
  EXPECT_EQ(read.request.bad_words, (std::vector<std::string>{"a", "b c"}));
  ASSERT_EQ(read.request.stop_patterns.size(), 1u);
  EXPECT_EQ(read.request.stop_patterns[0].source, "x+y");
  EXPECT_EQ(read.request.thinking_budget, 0);
  for (const char* name : {"thinking_token_budget", "thinking_budget", "reasoning_budget_tokens"}) {
    const Promised budget(("{\"" + std::string(name) + "\": 7}").c_str());
    EXPECT_EQ(budget.request.thinking_budget, 7);
    EXPECT_EQ(budget.request.thinking_budget_param, name);
  }
}

TEST(PromiseFieldsTest, NPredictMeansMaxTokens) {
  for (const auto& [json, expected] : std::vector<std::pair<const char*, std::optional<int>>>{
           {"{}", 16}, {R"({"n_predict": 3})", 3}, {R"({"n_predict": -1})", std::nullopt}}) {
    const ordered_json root = ordered_json::parse(json);
    JsonFields in(root);
    GenerationRequest request;
    ReadPredict(in, request);
    EXPECT_FALSE(in.error().has_value());
    EXPECT_EQ(request.sampling.max_tokens, expected) << json;
  }
  const ordered_json none = {{"n_predict", 0}};
  JsonFields in(none);
  GenerationRequest request;
  ReadPredict(in, request);
  EXPECT_EQ(in.error()->param, "n_predict");
}

TEST(PromiseFieldsTest, ErrorsOfValuesNameTheField) {
  for (const auto& [json, param] : std::vector<std::pair<const char*, const char*>>{
           {R"({"truncate_prompt_tokens": 0})", "truncate_prompt_tokens"},
           {R"({"truncate_prompt_tokens": -2})", "truncate_prompt_tokens"},
           {R"({"truncation_side": "middle"})", "truncation_side"},
           {R"({"bad_words": ["a", ""]})", "bad_words[1]"},
           {R"({"bad_words": [5]})", "bad_words[0]"},
           {R"({"stop_regex": ["a{400}", "b{400}", "c{400}"]})", "stop_regex"},
           {R"({"stop_regex": ["a", "("]})", "stop_regex"},
           {R"({"stop_regex": "a*"})", "stop_regex"},
           {R"({"stop_regex": "end$"})", "stop_regex"},
           {R"({"thinking_budget": -2})", "thinking_budget"},
           {R"({"thinking_token_budget": "low"})", "thinking_token_budget"}})
    EXPECT_EQ(Promised(json).param, param) << json;
  EXPECT_EQ(Promised(("{\"bad_words\": [\"" + std::string(257, 'x') + "\"]}").c_str()).param, "bad_words");
  ordered_json many;
  for (int i = 0; i < 100; ++i) many["bad_words"].push_back(std::string(200, 'x'));
  EXPECT_EQ(Promised(many.dump().c_str()).param, "bad_words");
}

}  // namespace
}  // namespace numoe::serving
