// Log-probabilities in the forms of chats, completions and prompts.
#include "coordinator/serving/api/logprob_json.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

const ByteTokenizer& Bytes() {
  static const auto* const tokenizer = new ByteTokenizer({"!<end>"}, {"日本"});
  return *tokenizer;
}
execution::TokenLogprobs Drawn(TokenId token, float logprob, std::vector<execution::TokenLogprob> top = {},
                               int rank = 1) {
  return {.chosen = {token, logprob}, .rank = rank, .top = std::move(top)};
}

TEST(LogprobJsonTest, ChatsHaveTokenBytesAndAlternatives) {
  using Part = text::AnswerPart;
  const ordered_json json =
      ChatLogprobs({Drawn('t', -1), Drawn('a', -0.5f, {{'a', -0.5f}, {257, -1.0f}}), Drawn(0xE6, -INFINITY),
                    Drawn('{', -1)},
                   {Part::kReasoning, Part::kContent, Part::kContent, Part::kCalls}, Bytes(), false);
  EXPECT_EQ(json.at("reasoning_content").at(0).at("token"), "t");
  EXPECT_EQ(json.at("tool_calls").at(0).at("token"), "{");
  EXPECT_TRUE(ChatLogprobs({}, {}, Bytes(), false).is_null());
  ASSERT_EQ(json.at("content").size(), 2u);
  EXPECT_EQ(json.at("content")[0],
            ordered_json::parse(R"({"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [
              {"token": "a", "logprob": -0.5, "bytes": [97]}, {"token": "日本", "logprob": -1.0, "bytes": [230, 151, 165, 230, 156, 172]}]})"));
  EXPECT_EQ(json.at("content")[1].at("token"), "\xEF\xBF\xBD")
      << "a part of a character is shown as the replacement character";
  EXPECT_EQ(json.at("content")[1].at("bytes"), ordered_json({0xE6}));
  EXPECT_EQ(json.at("content")[1].at("logprob"), -9999.0f) << "JSON has no infinity";
  EXPECT_TRUE(json.at("refusal").is_null());
}

TEST(LogprobJsonTest, CompletionsAreParallelLists) {
  int offset = 10;
  const ordered_json json = TextLogprobs(
      {Drawn('a', NAN), Drawn(257, -1.0f, {{'b', -0.25f}}), Drawn('c', -2.0f)}, Bytes(), false, offset);
  EXPECT_EQ(json.at("text_offset"), ordered_json({10, 11, 13}));
  EXPECT_EQ(offset, 14);
  EXPECT_EQ(json.at("tokens"), ordered_json({"a", "日本", "c"}));
  EXPECT_EQ(json.at("token_logprobs"), ordered_json({nullptr, -1.0, -2.0}));
  EXPECT_EQ(json.at("top_logprobs"), ordered_json({nullptr, {{"b", -0.25}, {"日本", -1.0}}, {{"c", -2.0}}}))
      << "the sampled token is included, even if no alternatives were asked for";
  EXPECT_TRUE(TextLogprobs({}, Bytes(), false, offset).is_null());
  EXPECT_EQ(offset, 14);
}

TEST(LogprobJsonTest, TokensMayBeNamedByTheirIds) {
  int offset = 0;
  const std::vector<execution::TokenLogprobs> drawn = {Drawn(257, -1.0f, {{'b', -0.25f}})};
  const ordered_json text = TextLogprobs(drawn, Bytes(), true, offset);
  EXPECT_EQ(text.at("tokens"), ordered_json({"token_id:257"}));
  EXPECT_EQ(text.at("top_logprobs")[0], ordered_json({{"token_id:98", -0.25}, {"token_id:257", -1.0}}));
  EXPECT_EQ(offset, 2) << "offsets count the characters of the text";
  const ordered_json chat = ChatLogprobs(drawn, {text::AnswerPart::kContent}, Bytes(), true);
  EXPECT_EQ(chat.at("content")[0].at("token"), "token_id:257");
  EXPECT_EQ(chat.at("content")[0].at("top_logprobs")[0].at("token"), "token_id:98");
}

TEST(LogprobJsonTest, PromptsHaveIdsWithRanks) {
  const ordered_json json = PromptLogprobs({Drawn('x', -3.0f, {{'a', -0.5f}, {'x', -3.0f}}, 2)}, Bytes());
  EXPECT_EQ(json, ordered_json::parse(R"([null, {"120": {"logprob": -3.0, "rank": 2, "decoded_token": "x"},
                                                 "97": {"logprob": -0.5, "rank": 1, "decoded_token": "a"}}])"));
}

}  // namespace
}  // namespace numoe::serving
