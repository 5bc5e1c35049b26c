// Sampling, compared to the distributions that the header states.
#include "coordinator/execution/sampling/sampler.h"

#include <cmath>
#include <map>
#include <random>

#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

const std::vector<float> kLogits = {0.0f, 2.0f, 1.0f, -1.0f, 2.0f};

std::map<TokenId, double> Frequencies(SamplingChoice choice, int draws = 40000) {
  Sampler sampler(5);
  std::map<TokenId, double> counts;
  for (int i = 0; i < draws; ++i) {
    choice.position = i;
    counts[*sampler.Sample(kLogits, choice)] += 1.0 / draws;
  }
  return counts;
}

TEST(SamplerTest, GreedyTakesTheBestAndTiesGoToTheLowestId) {
  Sampler sampler(5);
  EXPECT_EQ(*sampler.Sample(kLogits, {.temperature = 0}), 1);
}

TEST(SamplerTest, TemperatureFollowsSoftmax) {
  for (const double temperature : {0.5, 1.0, 2.0}) {
    double total = 0;
    for (const float l : kLogits) total += std::exp(l / temperature);
    const auto f = Frequencies({.temperature = temperature});
    for (TokenId t = 0; t < 5; ++t) {
      const double p = std::exp(kLogits[t] / temperature) / total;
      // The tolerance is six standard deviations of a binomial frequency over 40000 draws.
      EXPECT_NEAR(f.count(t) ? f.at(t) : 0.0, p, 6 * std::sqrt(p * (1 - p) / 40000) + 1e-9) << "token " << t;
    }
  }
}

TEST(SamplerTest, TopKTopPAndMinPKeepTheRightTokens) {
  EXPECT_EQ(Frequencies({.top_k = 2}).size(), 2u);    // 1 and 4
  EXPECT_EQ(Frequencies({.top_p = 0.5}).size(), 2u);  // 0.36 + 0.36 reaches 0.5
  EXPECT_EQ(Frequencies({.top_p = 0.1}).size(), 1u);
  EXPECT_EQ(Frequencies({.min_p = 0.3}).size(), 3u);  // exp(-1) = 0.37 of the best is kept, exp(-2) is not
  EXPECT_EQ(Frequencies({.top_k = 3, .min_p = 0.5}).size(), 2u);
}

TEST(SamplerTest, TheSameSeedAndPositionGiveTheSameToken) {
  Sampler sampler(5);
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    const auto first = sampler.Sample(kLogits, {.seed = 4, .position = i});
    EXPECT_EQ(*first, *sampler.Sample(kLogits, {.seed = 4, .position = i}));
    different += *first != *sampler.Sample(kLogits, {.seed = 5, .position = i}) ? 1 : 0;
  }
  EXPECT_GT(different, 10);
}

TEST(SamplerTest, WithAMaskProbabilitiesAreThoseAmongItsTokens) {
  const uint64_t mask[] = {0b01101};  // 0, 2 and 3
  const double total = std::exp(0.0) + std::exp(1.0) + std::exp(-1.0);
  const auto f = Frequencies({.allowed = mask});
  ASSERT_EQ(f.size(), 3u);
  for (const TokenId t : {0, 2, 3}) {
    const double p = std::exp(kLogits[static_cast<size_t>(t)]) / total;
    EXPECT_NEAR(f.at(t), p, 6 * std::sqrt(p * (1 - p) / 40000)) << "token " << t;
  }
  Sampler sampler(5);
  EXPECT_EQ(*sampler.Sample(kLogits, {.temperature = 0, .allowed = mask}), 2);
  EXPECT_EQ(Frequencies({.top_k = 2, .allowed = mask}).size(), 2u);
  // Bits beyond the vocabulary do not stand for tokens; a mask with only such bits is an error.
  const uint64_t beyond[] = {uint64_t{1} << 5, 1};
  EXPECT_EQ(sampler.Sample(kLogits, {.allowed = beyond}).status().code(), absl::StatusCode::kInternal);
  // Logits of tokens that are not allowed may be NaN.
  EXPECT_EQ(
      *sampler.Sample(std::vector<float>{0.0f, NAN, 1.0f, 0.0f, 0.0f}, {.temperature = 0, .allowed = mask}),
      2);
}

TEST(SamplerTest, IdsBeyondTheVocabularyAreNotDrawnAndBadLogitsAreRefused) {
  Sampler small(1);
  EXPECT_EQ(*small.Sample(kLogits, {}), 0);
  Sampler sampler(2);
  EXPECT_EQ(sampler.Sample(std::vector<float>{0.0f, NAN}, {}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(sampler.Sample(std::vector<float>{INFINITY, 0.0f}, {.temperature = 0}).status().code(),
            absl::StatusCode::kDataLoss);
}

// Draws as the header states, by sorting everything.
TokenId SamplerReference(const std::vector<float>& logits, const SamplingChoice& choice) {
  std::vector<std::pair<double, TokenId>> sorted;
  for (size_t i = 0; i < logits.size(); ++i) sorted.emplace_back(-logits[i], static_cast<TokenId>(i));
  std::sort(sorted.begin(), sorted.end());
  if (choice.top_k > 0 && static_cast<size_t>(choice.top_k) < sorted.size())
    sorted.resize(static_cast<size_t>(choice.top_k));
  std::vector<double> weights;
  double total = 0;
  for (const auto& [logit, token] : sorted) {
    weights.push_back(std::exp((sorted[0].first - logit) / choice.temperature));
    total += weights.back();
  }
  size_t kept = 0;
  double mass = 0;
  while (kept < weights.size() &&
         (kept == 0 || (mass < choice.top_p * total && weights[kept] >= choice.min_p)))
    mass += weights[kept++];
  double left = CounterUniform(choice.seed, static_cast<uint64_t>(choice.position)) * mass;
  for (size_t i = 0; i < kept; ++i) {
    left -= weights[i];
    if (left < 0) return sorted[i].second;
  }
  return sorted[kept - 1].second;
}

TEST(SamplerTest, ItDrawsTheSameTokenAsSortingEverything) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  int differences = 0, draws = 0;
  for (const float spread : {0.0f, 0.3f, 4.0f, 30.0f}) {
    std::vector<float> logits(5000);
    for (float& v : logits) v = spread * std::round(normal(random) * 64) / 64;  // many logits are equal
    Sampler sampler(5000);
    for (const SamplingChoice& cut :
         {SamplingChoice{}, SamplingChoice{.temperature = 0.01}, SamplingChoice{.temperature = 3.0},
          SamplingChoice{.top_p = 0.9}, SamplingChoice{.top_p = 0.999, .top_k = 300},
          SamplingChoice{.top_k = 2}, SamplingChoice{.min_p = 0.05},
          SamplingChoice{.top_p = 0.5, .top_k = 4999, .min_p = 1e-6}}) {
      for (int i = 0; i < 50; ++i) {
        SamplingChoice choice = cut;
        choice.position = i;
        const absl::StatusOr<TokenId> token = sampler.Sample(logits, choice);
        ASSERT_TRUE(token.ok());
        differences += *token != SamplerReference(logits, choice) ? 1 : 0;
        ++draws;
      }
    }
  }
  // A draw may differ at an edge between two tokens, because fp32 weights move edges by 2^-21 of the mass.
  EXPECT_LE(differences, 1) << "of " << draws;
}

// Few allowed tokens are copied, many stay in the row: in both cases the drawn token is the one that a
// vocabulary of only the allowed tokens would give, with the rules' logits.
TEST(SamplerTest, AMaskOfAnyDensityDrawsOnlyAmongItsTokens) {
  constexpr int kVocab = 3000;  // not a multiple of a mask's word
  std::mt19937 random(10);
  std::normal_distribution<float> normal;
  std::vector<float> logits(kVocab);
  for (float& v : logits) v = 3 * normal(random);
  const std::vector<TokenId> said(kVocab / 3, 17);
  LogitRules rules({.frequency_penalty = 0.02,
                    .bias = {{5, 4.0f}, {2999, 90.0f}, {77, -90.0f}},
                    .min_tokens = 9,
                    .late = {3, 4}},
                   said, kVocab);
  for (int i = 0; i < 8; ++i) rules.Count(static_cast<TokenId>(random() % kVocab));
  std::vector<float> shaped = logits;
  rules.Apply(absl::MakeSpan(shaped), true);
  Sampler sampler(kVocab);
  int differences = 0, draws = 0;
  for (const int share : {1, 20, 300, 499, 501, 700, 990, 1000}) {  // tokens of a thousand
    std::vector<uint64_t> mask(kVocab / 64 + 2);
    for (int t = 0; t < kVocab + 40; ++t) {
      const bool in_full_word = share > 600 && t < 640;
      if (in_full_word || static_cast<int>(random() % 1000) < share)
        mask[static_cast<size_t>(t / 64)] |= uint64_t{1} << t % 64;
    }
    mask[1] |= 1;  // never empty
    for (const bool with_rules : {false, true}) {
      std::vector<TokenId> tokens;
      std::vector<float> theirs;
      for (int t = 0; t < kVocab; ++t) {
        if ((mask[static_cast<size_t>(t / 64)] >> t % 64 & 1) == 0) continue;
        tokens.push_back(t);
        theirs.push_back((with_rules ? shaped : logits)[static_cast<size_t>(t)]);
      }
      Sampler few(static_cast<int>(tokens.size()));
      for (const SamplingChoice& cut :
           {SamplingChoice{.temperature = 0}, SamplingChoice{}, SamplingChoice{.top_p = 0.8},
            SamplingChoice{.temperature = 2, .top_k = 40}, SamplingChoice{.min_p = 0.01}}) {
        for (int i = 0; i < 40; ++i) {
          SamplingChoice choice = cut;
          choice.position = i;
          const TokenId expected = tokens[static_cast<size_t>(*few.Sample(theirs, choice))];
          choice.allowed = mask;
          choice.rules = with_rules ? &rules : nullptr;
          differences += *sampler.Sample(logits, choice) != expected ? 1 : 0;
          ++draws;
        }
      }
    }
  }
  EXPECT_LE(differences, 1) << "of " << draws << ": the order of a sum may move an edge between two tokens";
}

TEST(SamplerTest, TheBestIsFoundWhereverItIs) {
  Sampler sampler(3000);
  for (const size_t at : {0, 1, 1023, 1024, 2047, 2999}) {
    std::vector<float> logits(3000, -5.0f);
    logits[at] = -1.5f;
    EXPECT_EQ(*sampler.Sample(logits, {.temperature = 0}), static_cast<TokenId>(at));
    logits.back() = NAN;
    EXPECT_FALSE(sampler.Sample(logits, {.temperature = 0}).ok());
  }
  EXPECT_EQ(*sampler.Sample(std::vector<float>{-1.0f, -0.0f, 0.0f}, {.temperature = 0}), 1)
      << "zeros are equal";
}

}  // namespace
}  // namespace numoe::execution
