// How the tokens of answers are counted.
#include "coordinator/serving/api/answer_writer.h"

#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/one_answer.h"

namespace numoe::serving {
namespace {

TEST(CountUsageTest, TokensOfAnswersAddUpAndAPromptCountsOnce) {
  const ByteTokenizer tokenizer({"!<end>"});
  const std::vector<TokenId> end = {256}, first_prompt = {1, 2, 3}, second_prompt = {4, 5};
  const text::OutputFormat format;
  GenerationRequest request;
  Choices choices;
  for (int i = 0; i < 4; ++i) {  // two answers for each of two prompts
    choices.push_back(
        std::make_unique<Choice>(request, ChoiceSetup{.tokenizer = tokenizer,
                                                      .format = format,
                                                      .eos_token_ids = end,
                                                      .prompt = i < 2 ? first_prompt : second_prompt,
                                                      .index = i,
                                                      .prompt_index = i / 2}));
    choices.back()->Take({.tokens = std::vector<TokenId>(static_cast<size_t>(i) + 1, 'a'),
                          .cached_prompt_tokens = 3 - i,
                          .error = {}});
  }
  const TokenUsage all = CountUsage(choices);
  EXPECT_EQ(all.prompt, 3 + 2);
  EXPECT_EQ(all.cached, 3 + 1) << "only the first answer to each prompt counts";
  EXPECT_EQ(all.completion, 1 + 2 + 3 + 4);
  EXPECT_EQ(all.reasoning, 0);
  const TokenUsage one = CountUsage(*choices[1]);
  EXPECT_EQ(one.prompt, 3);
  EXPECT_EQ(one.cached, 2);
  EXPECT_EQ(one.completion, 2);
  EXPECT_EQ(CountUsage(Choices()).prompt, 0);
}

}  // namespace
}  // namespace numoe::serving
