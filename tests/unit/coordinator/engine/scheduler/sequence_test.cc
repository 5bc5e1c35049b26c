// Requests become sequences: refusals, limits of the answer's length, and values that are prepared once.
#include "coordinator/engine/scheduler/sequence.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

using ::testing::HasSubstr;

const SequenceLimits kLimits{.tokens_max = 10, .vocab = 100, .eos_token_ids = {9}};

EngineRequest Asked(std::vector<TokenId> prompt, SamplingParams sampling = {}) {
  return {.prompt = std::move(prompt), .sampling = std::move(sampling)};
}
std::string Refusal(EngineRequest request) {
  return std::string(MakeSequence(std::move(request), kLimits).status().message());
}

TEST(SequenceTest, APromptLeavesRoomForAnAnswer) {
  const auto fits = MakeSequence(Asked(std::vector<TokenId>(9, 1), {.max_tokens = 16}), kLimits);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ((*fits)->tokens_max, 10) << "max_tokens is limited by the context";
  EXPECT_EQ((*fits)->prompt_tokens, 9);
  EXPECT_EQ((*fits)->generated(), 0);
  EXPECT_EQ((*fits)->uncached(), 9);
  EXPECT_EQ((*fits)->drawing.rules, nullptr);
  EXPECT_TRUE((*fits)->allowed.empty());
  EXPECT_EQ(Refusal(Asked(std::vector<TokenId>(10, 1))),
            "the prompt has 10 tokens, but the context holds 10 including the answer");
}

TEST(SequenceTest, ErrorsNameTheParameterThatIsOutOfRange) {
  EXPECT_EQ(Refusal(Asked({1, 100})), "prompt: token 100 is not in the vocabulary of 100 tokens");
  EXPECT_EQ(Refusal(Asked({-1})), "prompt: token -1 is not in the vocabulary of 100 tokens");
  EXPECT_THAT(Refusal(Asked({1}, {.frequency_penalty = NAN})),
              HasSubstr("frequency_penalty: expected a number"));
  EXPECT_THAT(Refusal(Asked({1}, {.presence_penalty = INFINITY})),
              HasSubstr("presence_penalty: expected a number"));
  EXPECT_THAT(Refusal(Asked({1}, {.repetition_penalty = 0})),
              HasSubstr("repetition_penalty: 0, expected a number greater than 0"));
  EXPECT_THAT(Refusal(Asked({1}, {.logit_bias = {{100, 1.0f}}})), HasSubstr("logit_bias: token 100"));
  EXPECT_THAT(Refusal(Asked({1}, {.logit_bias = {{1, NAN}}})), HasSubstr("logit_bias: expected numbers"));
  EXPECT_THAT(Refusal(Asked({1}, {.allowed_token_ids = {5, -3}})), HasSubstr("allowed_token_ids: token -3"));
  EXPECT_THAT(Refusal(Asked({1}, {.logprobs = -1})), HasSubstr("logprobs: -1, expected 0 to"));
  EXPECT_THAT(Refusal(Asked({1}, {.prompt_logprobs = 1000})),
              HasSubstr("prompt_logprobs: 1000, expected 0 to"));
}

TEST(SequenceTest, AllowedTokensBecomeAMask) {
  const auto s = MakeSequence(Asked({1}, {.allowed_token_ids = {0, 63, 64, 99}}), kLimits);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_THAT((*s)->allowed,
              ::testing::ElementsAre(uint64_t{1} | uint64_t{1} << 63, uint64_t{1} | uint64_t{1} << 35));
}

TEST(SequenceTest, RulesExistOnlyIfTheRequestNeedsThem) {
  for (const SamplingParams& p : {SamplingParams{.frequency_penalty = 1},
                                  {.repetition_penalty = 1.1},
                                  {.logit_bias = {{3, 1.0f}}},
                                  {.min_tokens = 2}})
    EXPECT_NE((*MakeSequence(Asked({1}, p), kLimits))->drawing.rules, nullptr);
  EXPECT_EQ((*MakeSequence(Asked({1}, {.repetition_penalty = 1}), kLimits))->drawing.rules, nullptr);
}

TEST(SequenceTest, AllPromptTokensExceptTheFirstAreScored) {
  const auto s = MakeSequence(Asked({1, 2, 3}, {.prompt_logprobs = 0}), kLimits);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ((*s)->unscored(), 2);
  (*s)->drawing.scored = 2;
  EXPECT_EQ((*s)->unscored(), 0);
  EXPECT_EQ((*MakeSequence(Asked({1, 2, 3}), kLimits))->unscored(), 0);
}

TEST(SequenceTest, PriorityComesBeforeArrival) {
  const auto sequence = [](SequenceId id, int priority) {
    EngineRequest request = Asked({1});
    request.priority = priority;
    auto made = std::make_unique<Sequence>(std::move(request), kLimits);
    made->id = id;
    return made;
  };
  const auto early = sequence(1, 0), late = sequence(2, 0), urgent = sequence(3, -1);
  EXPECT_TRUE(early->GoesBefore(*late));
  EXPECT_FALSE(late->GoesBefore(*early));
  EXPECT_TRUE(urgent->GoesBefore(*early));
  EXPECT_FALSE(early->GoesBefore(*early));
}

}  // namespace
}  // namespace numoe::engine
