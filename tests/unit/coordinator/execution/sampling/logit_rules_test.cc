// Rules, compared to their definitions, token by token; and what the sampler draws with them.
#include "coordinator/execution/sampling/logit_rules.h"

#include <cmath>
#include <map>
#include <random>

#include "coordinator/execution/sampling/sampler.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

constexpr int kVocab = 50;

// The definitions of OpenAI and vLLM, computed from whole texts.
std::vector<float> Reference(std::vector<float> logits, const LogitRuleParams& p,
                             const std::vector<TokenId>& prompt, const std::vector<TokenId>& output) {
  for (const auto& [token, bias] : p.bias) logits[static_cast<size_t>(token)] += bias;
  std::map<TokenId, int> in_prompt, in_output;
  for (const TokenId t : prompt) ++in_prompt[t];
  for (const TokenId t : output) ++in_output[t];
  for (TokenId t = 0; t < kVocab; ++t) {
    float& logit = logits[static_cast<size_t>(t)];
    const auto repetition = static_cast<float>(p.repetition_penalty);
    if (in_prompt[t] + in_output[t] > 0) logit = logit > 0 ? logit / repetition : logit * repetition;
    logit -= static_cast<float>(p.frequency_penalty) * static_cast<float>(in_output[t]);
    if (in_output[t] > 0) logit -= static_cast<float>(p.presence_penalty);
  }
  if (static_cast<int>(output.size()) < p.min_tokens) {
    for (const TokenId t : p.late) logits[static_cast<size_t>(t)] = kForbiddenLogit;
  }
  return logits;
}

TEST(LogitRulesTest, RulesEqualTheirDefinitionsAtEveryToken) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  const auto tokens = [&](size_t count) {
    std::vector<TokenId> result(count);
    for (TokenId& t : result) t = static_cast<TokenId>(random() % kVocab);
    return result;
  };
  for (int round = 0; round < 200; ++round) {
    LogitRuleParams p;
    if (round % 2 == 0) p.frequency_penalty = normal(random);
    if (round % 3 == 0) p.presence_penalty = normal(random);
    if (round % 5 < 3) p.repetition_penalty = std::exp(normal(random));
    if (round % 7 == 0) p.bias = {{3, 5.0f}, {9, -100.0f}};
    if (round % 4 == 0) p.min_tokens = 5, p.late = {1, 3};
    const std::vector<TokenId> prompt = tokens(random() % 40);
    LogitRules rules(p, prompt, kVocab);
    std::vector<TokenId> output;
    for (const TokenId next : tokens(12)) {
      std::vector<float> logits(kVocab);
      for (float& logit : logits) logit = 5 * normal(random);
      const std::vector<float> expected = Reference(logits, p, prompt, output);
      EXPECT_EQ(rules.Forbids(), static_cast<int>(output.size()) < p.min_tokens);
      rules.Apply(absl::MakeSpan(logits), /*forbid=*/true);
      for (size_t t = 0; t < kVocab; ++t)
        ASSERT_NEAR(logits[t], expected[t], 1e-5 + std::abs(expected[t]) * 1e-6)
            << "round " << round << " token " << t;
      rules.Count(next);
      output.push_back(next);
    }
  }
}

// Applies the list as a device does (kernels/sampling.h).
float Applied(const TokenRule& rule, const LogitPenalties& penalties, bool forbids, float logit) {
  if (forbids && rule.late) return kForbiddenLogit;
  if (rule.biased) logit += rule.bias;
  if (!rule.seen) return logit;
  logit = logit > 0 ? logit / penalties.repetition : logit * penalties.repetition;
  if (rule.generated > 0)
    logit -= penalties.frequency * static_cast<float>(rule.generated) + penalties.presence;
  return logit;
}

TEST(LogitRulesTest, ApplyingTheListEqualsApply) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  const auto token = [&](int bound) { return static_cast<TokenId>(random() % static_cast<unsigned>(bound)); };
  for (int round = 0; round < 200; ++round) {
    LogitRuleParams p;
    if (round % 2 == 0) p.frequency_penalty = normal(random);
    if (round % 3 == 0) p.presence_penalty = normal(random);
    if (round % 5 < 3) p.repetition_penalty = std::exp(normal(random));
    if (round % 7 < 4) p.bias = {{3, 5.0f}, {9, -7.0f}};
    if (round % 4 == 0) p.min_tokens = 3, p.late = {1, 3, 1, kVocab + 2};
    LogitRules rules(p, {token(kVocab), token(kVocab), kVocab + 1}, kVocab);
    for (int drawn = 0; drawn < 8; ++drawn) {
      std::vector<float> logits(kVocab), listed(kVocab);
      for (size_t t = 0; t < kVocab; ++t) logits[t] = listed[t] = 5 * normal(random);
      rules.Apply(absl::MakeSpan(logits), /*forbid=*/true);
      const auto list = rules.List();
      ASSERT_TRUE(list);
      std::map<TokenId, int> times;
      for (const TokenRule& rule : *list) {
        ASSERT_LT(rule.token, kVocab);
        EXPECT_EQ(++times[rule.token], 1);
        float& logit = listed[static_cast<size_t>(rule.token)];
        logit = Applied(rule, rules.penalties(), rules.Forbids(), logit);
      }
      EXPECT_EQ(listed, logits) << "round " << round;
      rules.Count(token(10));
    }
  }
  EXPECT_FALSE(LogitRules({.bias = {{3, 1.0f}, {4, 1.0f}, {3, 2.0f}}}, {}, kVocab).List())
      << "applying two biases one after the other differs from their sum";
}

TEST(LogitRulesTest, RulesThatChangeNothingAreRecognised) {
  EXPECT_TRUE(LogitRules::IsNothing({}));
  EXPECT_TRUE(LogitRules::IsNothing({.min_tokens = 3}));
  EXPECT_TRUE(LogitRules::IsNothing({.late = {1}}));
  EXPECT_FALSE(LogitRules::IsNothing({.min_tokens = 3, .late = {1}}));
  EXPECT_FALSE(LogitRules::IsNothing({.repetition_penalty = 1.1}));
  EXPECT_FALSE(LogitRules::IsNothing({.bias = {{0, 1.0f}}}));
}

TEST(LogitRulesTest, ExtremesStayFiniteAndNanStaysNan) {
  LogitRules rules({.frequency_penalty = -3e38, .repetition_penalty = 1e-300, .bias = {{2, 3e38f}, {4, 1}}},
                   {0, 1}, 5);
  rules.Count(1);
  rules.Count(2);
  std::vector<float> logits = {9.0f, -9.0f, 3e38f, 0.5f, NAN};
  rules.Apply(absl::MakeSpan(logits), true);
  for (size_t t = 0; t < 4; ++t) EXPECT_TRUE(std::isfinite(logits[t])) << "token " << t;
  EXPECT_EQ(logits[3], 0.5f);
  EXPECT_TRUE(std::isnan(logits[4]));
}

TEST(LogitRulesTest, AForbiddenTokenIsNeverDrawn) {
  Sampler sampler(4);
  LogitRules rules({.bias = {{0, 100.0f}}, .min_tokens = 1, .late = {0, 7}}, {}, 4);
  const std::vector<float> logits = {50.0f, 1.0f, 0.0f, 0.5f};
  for (const double temperature : {0.0, 1.0, 100.0}) {
    for (int i = 0; i < 2000; ++i) {
      EXPECT_NE(*sampler.Sample(logits, {.temperature = temperature, .position = i, .rules = &rules}), 0);
    }
  }
  rules.Count(1);
  EXPECT_EQ(*sampler.Sample(logits, {.temperature = 0, .rules = &rules}), 0) << "now it is allowed";
}

TEST(LogitRulesTest, NoBiasAllowsATokenThatAMaskForbids) {
  Sampler sampler(4);
  LogitRules rules({.presence_penalty = 2, .bias = {{1, 100.0f}}, .min_tokens = 9, .late = {2}}, {}, 4);
  const std::vector<float> logits = {0.0f, 5.0f, 3.0f, 0.5f};
  const uint64_t mask[] = {0b1101};  // all tokens except 1
  for (int i = 0; i < 2000; ++i) {
    const TokenId token =
        *sampler.Sample(logits, {.temperature = 5, .position = i, .allowed = mask, .rules = &rules});
    EXPECT_TRUE(token == 0 || token == 3) << token;
  }
  // If a mask allows only late tokens, the mask wins; without a mask no token is left.
  const uint64_t end[] = {0b0100};
  EXPECT_EQ(*sampler.Sample(logits, {.allowed = end, .rules = &rules}), 2);
  LogitRules all({.min_tokens = 1, .late = {0, 1, 2, 3}}, {}, 4);
  EXPECT_EQ(sampler.Sample(logits, {.rules = &all}).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace numoe::execution
