// How much of their prompts two requests share, by their marks.
#include "coordinator/router/prompt_prefix.h"

#include <fmt/format.h>

#include <algorithm>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace numoe::router {
namespace {

using nlohmann::ordered_json;

size_t Shared(const PromptPrefix& a, const PromptPrefix& b) {
  const auto [end, other] = std::mismatch(a.marks.begin(), a.marks.end(), b.marks.begin(), b.marks.end());
  return static_cast<size_t>(end - a.marks.begin());
}

PromptPrefix Chat(const std::vector<std::string>& contents, const ordered_json& more = {}) {
  ordered_json body = {{"model", "m"}};
  for (size_t i = 0; i < contents.size(); ++i)
    body["messages"].push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", contents[i]}});
  if (more.is_object()) body.update(more);
  return ReadPromptPrefix(body.dump());
}

std::string Text(size_t bytes, char seed) {
  std::string text;
  for (size_t i = 0; text.size() < bytes; ++i) text += fmt::format("{}{} ", seed, i);
  text.resize(bytes);
  return text;
}

TEST(PromptPrefix, MarksAreAtFixedOffsetsAndFew) {
  EXPECT_EQ(MarkBytes(0), 16u);
  EXPECT_EQ(MarkBytes(15), 256u);
  EXPECT_EQ(MarkBytes(16), 272u);
  for (size_t i = 1; i < 300; ++i) {
    const size_t step = MarkBytes(i) - MarkBytes(i - 1);
    EXPECT_LE(step, std::max<size_t>(16, MarkBytes(i - 1) / 16)) << i;
  }
  const PromptPrefix longest = ReadPromptPrefix(ordered_json{{"prompt", Text(32 << 20, 'x')}}.dump());
  EXPECT_EQ(longest.bytes, (32u << 20) + 1);
  EXPECT_LE(longest.marks.size(), 300u);
  EXPECT_LE(MarkBytes(longest.marks.size() - 1), longest.bytes);
  EXPECT_GT(MarkBytes(longest.marks.size()), longest.bytes);
}

TEST(PromptPrefix, TheNextTurnHasAllMarksOfTheOneBefore) {
  const std::vector<std::string> turns = {Text(100, 'a'), Text(3000, 'b'), Text(50, 'c'), Text(700, 'd'),
                                          "?"};
  for (size_t n = 1; n + 2 <= turns.size(); n += 2) {
    const PromptPrefix before = Chat({turns.begin(), turns.begin() + static_cast<std::ptrdiff_t>(n)});
    const PromptPrefix after = Chat({turns.begin(), turns.begin() + static_cast<std::ptrdiff_t>(n) + 2});
    EXPECT_EQ(Shared(before, after), before.marks.size());
    EXPECT_GT(after.marks.size(), before.marks.size());
  }
}

TEST(PromptPrefix, ADifferenceIsFoundToASixteenth) {
  const std::string text = Text(10'000, 'a');
  for (const size_t at : {0u, 20u, 255u, 300u, 4'000u, 9'000u}) {
    std::string other = text;
    other[at] = '#';
    const size_t shared = Shared(ReadPromptPrefix(ordered_json{{"prompt", text}}.dump()),
                                 ReadPromptPrefix(ordered_json{{"prompt", other}}.dump()));
    EXPECT_LE(shared == 0 ? 0 : MarkBytes(shared - 1), at);
    EXPECT_GT(MarkBytes(shared), at) << "the next mark comes after the difference";
  }
}

TEST(PromptPrefix, TenantsAndModelsShareNothing) {
  const std::string text = Text(500, 'a');
  const PromptPrefix plain = Chat({text});
  EXPECT_EQ(Shared(plain, Chat({text}, {{"cache_salt", "tenant"}})), 0u);
  EXPECT_EQ(Shared(plain, Chat({text}, {{"model", "other"}})), 0u);
  EXPECT_EQ(Shared(plain, Chat({text}, {{"temperature", 0.5}, {"stream", true}})), plain.marks.size());
}

TEST(PromptPrefix, ToolsAndSystemMessagesComeBeforeMessages) {
  const ordered_json tools = {{{"type", "function"}, {"function", {{"name", Text(400, 't')}}}}};
  const PromptPrefix one = Chat({"first question"}, {{"tools", tools}});
  const PromptPrefix other = Chat({"another one"}, {{"tools", tools}});
  EXPECT_GE(MarkBytes(Shared(one, other) - 1), 384u);
  const PromptPrefix anthropic = Chat({"first"}, {{"system", Text(400, 's')}});
  EXPECT_GE(MarkBytes(Shared(anthropic, Chat({"other"}, {{"system", Text(400, 's')}})) - 1), 384u);
}

TEST(PromptPrefix, TheOrderOfFieldsAndCacheMarksDoNotCount) {
  const PromptPrefix one = ReadPromptPrefix(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a text of some length"}]}]})");
  const PromptPrefix other = ReadPromptPrefix(
      R"({"messages": [{"content": [{"text": "a text of some length", "type": "text",
          "cache_control": {"type": "ephemeral"}}], "role": "user"}]})");
  EXPECT_EQ(one.marks, other.marks);
  EXPECT_EQ(one.bytes, other.bytes);
}

TEST(PromptPrefix, EveryApiHasAPrompt) {
  for (const char* body :
       {R"({"prompt": "a prompt of more than sixteen bytes"})",
        R"({"prompt": [101, 102, 103, 104, 105, 106]})", R"({"text": "a prompt of more than sixteen bytes"})",
        R"({"input_ids": [[1, 2, 3, 4, 5, 6, 7, 8, 9]]})",
        R"({"input": "a question of more than sixteen bytes"})",
        R"({"instructions": "be brief in what you say", "input": [{"role": "user", "content": "x"}]})"}) {
    EXPECT_FALSE(ReadPromptPrefix(body).marks.empty()) << body;
  }
  EXPECT_EQ(ReadPromptPrefix(R"({"input": "x", "previous_response_id": "resp_1"})").previous_response_id,
            "resp_1");
}

TEST(PromptPrefix, AnInvalidRequestHasNoMarks) {
  for (const std::string body : {"", "{", "[]", "null", "{\"messages\": null}", "{\"prompt\": \"short\"}"})
    EXPECT_TRUE(ReadPromptPrefix(body).marks.empty()) << body;
  EXPECT_TRUE(ReadPromptPrefix("{\"prompt\": " + std::string(10'000, '[') + "}").marks.empty());
}

}  // namespace
}  // namespace numoe::router
