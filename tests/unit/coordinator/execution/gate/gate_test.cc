// Expert selection, compared to a direct, slow implementation of the papers' rules, and in corner cases.
#include "coordinator/execution/gate/gate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

using ::testing::ElementsAre;

struct Selection {
  std::vector<ExpertId> experts;
  std::vector<float> weights;
};

Selection Choose(const GateParams& params, const std::vector<float>& logits,
                 const std::vector<float>& bias = {}) {
  GateSelector selector(params, static_cast<int>(logits.size()));
  Selection s{std::vector<ExpertId>(params.experts_per_token), std::vector<float>(params.experts_per_token)};
  selector.Select(logits, bias, absl::MakeSpan(s.experts), absl::MakeSpan(s.weights));
  return s;
}

// The rules in double precision with sorting, as in the reference implementations.
Selection Reference(const GateParams& p, const std::vector<float>& logits, const std::vector<float>& bias) {
  const int n = static_cast<int>(logits.size());
  std::vector<double> score(n), choice(n);
  for (int e = 0; e < n; ++e) {
    score[e] = 1 / (1 + std::exp(-static_cast<double>(logits[e])));
    choice[e] = score[e] + bias[e];
  }
  const int width = n / p.n_group;
  std::vector<std::pair<double, int>> groups;
  for (int g = 0; g < p.n_group; ++g) {
    std::vector<double> members(choice.begin() + g * width, choice.begin() + (g + 1) * width);
    std::sort(members.rbegin(), members.rend());
    groups.push_back({-(members[0] + members[1]), g});
  }
  std::sort(groups.begin(), groups.end());
  std::vector<std::pair<double, int>> candidates;
  for (int i = 0; i < p.topk_group; ++i) {
    for (int e = groups[i].second * width; e < (groups[i].second + 1) * width; ++e)
      candidates.push_back({-choice[e], e});
  }
  std::sort(candidates.begin(), candidates.end());
  Selection s;
  double sum = 0;
  for (int k = 0; k < p.experts_per_token; ++k) sum += score[candidates[k].second];
  for (int k = 0; k < p.experts_per_token; ++k) {
    s.experts.push_back(candidates[k].second);
    s.weights.push_back(static_cast<float>(score[candidates[k].second] / sum * p.scaling));
  }
  return s;
}

TEST(GateTest, NoAuxTcFollowsTheRulesForRandomLogits) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const GateParams params{.experts_per_token = 8, .n_group = 8, .topk_group = 4, .scaling = 2.5f};
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(256), bias(256);
    for (float& v : logits) v = normal(random);
    for (float& v : bias) v = 0.1f * normal(random);
    const Selection expected = Reference(params, logits, bias);
    const Selection actual = Choose(params, logits, bias);
    EXPECT_EQ(actual.experts, expected.experts);
    // Sigmoid, sum and division in fp32 may be off by a few units in the last place of a weight below 2.5.
    for (int k = 0; k < 8; ++k) EXPECT_NEAR(actual.weights[k], expected.weights[k], 2e-6);
  }
}

TEST(GateTest, BiasAffectsTheSelectionButNotTheWeights) {
  const GateParams params{.experts_per_token = 2, .scaling = 1.0f};
  const Selection s = Choose(params, {0, 0, 0, 0}, {0, 0.3f, 0, 0.2f});
  EXPECT_THAT(s.experts, ElementsAre(1, 3));
  EXPECT_THAT(s.weights, ElementsAre(0.5f, 0.5f));
}

TEST(GateTest, ExpertsWithNegativeChoicesAreSelectedInsideKeptGroups) {
  // Every choice value is negative; masked experts must not win with a zero.
  const GateParams params{.experts_per_token = 2, .n_group = 2, .topk_group = 1};
  const Selection s = Choose(params, {-3, -3, -1, -1}, {-1, -1, -1, -1});
  EXPECT_THAT(s.experts, ElementsAre(2, 3));
}

TEST(GateTest, TiesGoToTheLowerIndex) {
  const GateParams params{.experts_per_token = 2, .n_group = 2, .topk_group = 1};
  EXPECT_THAT(Choose(params, {1, 1, 1, 1}).experts, ElementsAre(0, 1));
}

TEST(GateTest, TheExpertsWithTheSmallestWeightsAreDeferredAndComeLast) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 200; ++round) {
    GateParams params{.experts_per_token = 8, .n_group = 8, .topk_group = 4, .scaling = 2.5f};
    if (round % 2 == 1) params.scoring = GateScoring::kSoftmax;
    std::vector<float> logits(64), bias;
    // There are few different values, so that weights tie.
    for (float& v : logits) v = round % 4 < 2 ? normal(random) : static_cast<float>(random() % 3);
    for (int e = 0; round % 2 == 0 && e < 64; ++e) bias.push_back(0.5f * normal(random));
    const Selection whole = Choose(params, logits, bias);
    params.deferred_experts = 1 + round % 7;
    const Selection split = Choose(params, logits, bias);
    std::vector<size_t> by_weight(8);
    std::iota(by_weight.begin(), by_weight.end(), size_t{0});
    std::sort(by_weight.begin(), by_weight.end(), [&](size_t a, size_t b) {
      return std::make_pair(-whole.weights[a], whole.experts[a]) <
             std::make_pair(-whole.weights[b], whole.experts[b]);
    });
    const auto first_deferred = by_weight.end() - params.deferred_experts;
    std::sort(by_weight.begin(), first_deferred);
    std::sort(first_deferred, by_weight.end());
    for (size_t k = 0; k < 8; ++k) {
      EXPECT_EQ(split.experts[k], whole.experts[by_weight[k]]) << "round " << round << ", position " << k;
      EXPECT_EQ(split.weights[k], whole.weights[by_weight[k]]);
    }
  }
}

TEST(GateTest, NanWeightsLoseNoExpert) {
  const GateParams params{
      .scoring = GateScoring::kSoftmax, .experts_per_token = 3, .n_group = 1, .deferred_experts = 2};
  const Selection s = Choose(params, {1, std::nanf(""), 2, 0});
  EXPECT_EQ(std::set<ExpertId>(s.experts.begin(), s.experts.end()).size(), 3u);
}

TEST(GateTest, ExpertsAreSortedWhateverTheirOrder) {
  // All 720 orders of six logits with two equal ones: the expert that is read first must not win because of
  // that.
  std::vector<int> order = {0, 1, 2, 3, 4, 5};
  const float values[] = {3, 2, 2, 1, 0, -1};
  const GateParams params{.scoring = GateScoring::kSoftmax, .experts_per_token = 4};
  do {
    std::vector<float> logits;
    for (const int i : order) logits.push_back(values[i]);
    const Selection s = Choose(params, logits);
    std::vector<int> expected(6);
    for (int e = 0; e < 6; ++e) expected[static_cast<size_t>(e)] = e;
    std::stable_sort(expected.begin(), expected.end(), [&](int a, int b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    expected.resize(4);
    EXPECT_THAT(s.experts, ::testing::ElementsAreArray(expected));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(GateTest, SoftmaxTopKNormalised) {
  const GateParams params{.scoring = GateScoring::kSoftmax, .experts_per_token = 2};
  const Selection s = Choose(params, {0.0f, 2.0f, 1.0f, -1.0f});
  EXPECT_THAT(s.experts, ElementsAre(1, 2));
  EXPECT_NEAR(s.weights[0], std::exp(2.0) / (std::exp(2.0) + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(s.weights[0] + s.weights[1], 1.0, 1e-6);
}

TEST(GateTest, SoftmaxTopKNotNormalised) {
  const GateParams params{.scoring = GateScoring::kSoftmax, .experts_per_token = 1, .norm_topk_prob = false};
  const double sum = std::exp(0.0) + std::exp(2.0) + std::exp(1.0);
  EXPECT_NEAR(Choose(params, {0.0f, 2.0f, 1.0f}).weights[0], std::exp(2.0) / sum, 1e-6);
}

}  // namespace
}  // namespace numoe::execution
