// Sampling against the distributions it promises.
#include "coordinator/sampling/sampler.h"

#include <cmath>
#include <map>

#include "gtest/gtest.h"

namespace numoe {
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

TEST(SamplerTest, GreedyTakesTheBestAndTheLowestOfEquals) {
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
      // Six standard deviations of a binomial frequency over 40000 draws.
      EXPECT_NEAR(f.count(t) ? f.at(t) : 0.0, p, 6 * std::sqrt(p * (1 - p) / 40000) + 1e-9) << "token " << t;
    }
  }
}

TEST(SamplerTest, CutsKeepOnlyWhatTheyPromise) {
  EXPECT_EQ(Frequencies({.top_k = 2}).size(), 2u);    // 1 and 4
  EXPECT_EQ(Frequencies({.top_p = 0.5}).size(), 2u);  // 0.36 + 0.36 reaches 0.5
  EXPECT_EQ(Frequencies({.top_p = 0.1}).size(), 1u);
  EXPECT_EQ(Frequencies({.min_p = 0.3}).size(), 3u);  // exp(-1) = 0.37 of the best stays, exp(-2) goes
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

TEST(SamplerTest, IdsBeyondTheVocabularyAndBadLogits) {
  Sampler small(1);
  EXPECT_EQ(*small.Sample(kLogits, {}), 0);
  Sampler sampler(2);
  EXPECT_EQ(sampler.Sample(std::vector<float>{0.0f, NAN}, {}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(sampler.Sample(std::vector<float>{INFINITY, 0.0f}, {.temperature = 0}).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace numoe
