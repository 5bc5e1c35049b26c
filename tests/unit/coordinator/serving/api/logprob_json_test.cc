// Log-probabilities in the shapes of chats, completions and prompts.
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

TEST(LogprobJsonTest, ChatsSayTokenBytesAndAlternatives) {
  const ordered_json json =
      ChatLogprobs({Drawn('a', -0.5f, {{'a', -0.5f}, {257, -1.0f}}), Drawn(0xE6, -INFINITY)}, Bytes());
  ASSERT_EQ(json.at("content").size(), 2u);
  EXPECT_EQ(json.at("content")[0],
            ordered_json::parse(R"({"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [
              {"token": "a", "logprob": -0.5, "bytes": [97]}, {"token": "日本", "logprob": -1.0, "bytes": [230, 151, 165, 230, 156, 172]}]})"));
  EXPECT_EQ(json.at("content")[1].at("token"), "\xEF\xBF\xBD")
      << "half a character is shown by its replacement";
  EXPECT_EQ(json.at("content")[1].at("bytes"), ordered_json({0xE6}));
  EXPECT_EQ(json.at("content")[1].at("logprob"), -9999.0f) << "JSON has no infinity";
  EXPECT_TRUE(json.at("refusal").is_null());
}

TEST(LogprobJsonTest, CompletionsAreParallelLists) {
  int offset = 10;
  const ordered_json json =
      TextLogprobs({Drawn('a', NAN), Drawn(257, -1.0f, {{'b', -0.25f}}), Drawn('c', -2.0f)}, Bytes(), offset);
  EXPECT_EQ(json.at("text_offset"), ordered_json({10, 11, 17}));
  EXPECT_EQ(offset, 18);
  EXPECT_EQ(json.at("tokens"), ordered_json({"a", "日本", "c"}));
  EXPECT_EQ(json.at("token_logprobs"), ordered_json({nullptr, -1.0, -2.0}));
  EXPECT_EQ(json.at("top_logprobs"),
            ordered_json({nullptr, {{"b", -0.25}, {"日本", -1.0}}, ordered_json::object()}))
      << "the drawn token is among those that were asked for, and there are none where none were";
}

TEST(LogprobJsonTest, PromptsAreByIdWithRanks) {
  const ordered_json json = PromptLogprobs({Drawn('x', -3.0f, {{'a', -0.5f}, {'x', -3.0f}}, 2)}, Bytes());
  EXPECT_EQ(json, ordered_json::parse(R"([null, {"120": {"logprob": -3.0, "rank": 2, "decoded_token": "x"},
                                                 "97": {"logprob": -0.5, "rank": 1, "decoded_token": "a"}}])"));
}

}  // namespace
}  // namespace numoe::serving
