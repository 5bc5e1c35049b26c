// Log-probabilities, compared to sorting everything in double precision.
#include "coordinator/execution/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

double LogTotal(const std::vector<float>& logits) {
  double total = 0;
  const double best = *std::max_element(logits.begin(), logits.end());
  for (const float logit : logits) total += std::exp(logit - best);
  return best + std::log(total);
}

void ExpectLikeSorting(const std::vector<float>& logits, TokenId chosen, int top) {
  const double log_total = LogTotal(logits);
  const auto found = ReadLogprobs(logits, chosen, top);
  ASSERT_TRUE(found.ok()) << found.status();
  // The error of an fp32 number of this size, and of exponentials with a relative error of 2^-21.
  const auto near = [&](const TokenLogprob& p) {
    const double expected = logits[static_cast<size_t>(p.token)] - log_total;
    EXPECT_NEAR(p.logprob, expected, 1e-6 + std::abs(expected) * 1e-6) << "token " << p.token;
  };
  EXPECT_EQ(found->chosen.token, chosen);
  near(found->chosen);
  EXPECT_EQ(found->rank, 1 + std::count_if(logits.begin(), logits.end(), [&](float logit) {
                           return logit > logits[static_cast<size_t>(chosen)];
                         }));
  std::vector<std::pair<float, TokenId>> sorted;
  for (size_t i = 0; i < logits.size(); ++i) sorted.emplace_back(-logits[i], static_cast<TokenId>(i));
  std::sort(sorted.begin(), sorted.end());
  ASSERT_EQ(found->top.size(), std::min(logits.size(), static_cast<size_t>(top)));
  for (size_t i = 0; i < found->top.size(); ++i) {
    EXPECT_EQ(found->top[i].token, sorted[i].second) << "position " << i;
    near(found->top[i]);
  }
}

TEST(LogprobsTest, TheyEqualThoseFromSortingEverything) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const size_t size : {1, 7, 21, 255, 256, 257, 5000}) {
    for (const float spread : {0.0f, 0.2f, 3.0f, 40.0f}) {
      std::vector<float> logits(size);
      // Many logits are equal.
      for (float& logit : logits) logit = spread * std::round(normal(random) * 32) / 32 - 5;
      for (const int top : {0, 1, 5, kLogprobsMax}) {
        ExpectLikeSorting(logits, static_cast<TokenId>(random() % size), top);
        if (HasFailure()) FAIL() << size << " logits, spread " << spread << ", top " << top;
      }
    }
  }
}

TEST(LogprobsTest, TheBestComeFirstWhateverTheirOrderInTheRow) {
  std::vector<float> rising(1000);
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<float>(i) / 100;
  ExpectLikeSorting(rising, 999, kLogprobsMax);
  std::reverse(rising.begin(), rising.end());
  ExpectLikeSorting(rising, 999, kLogprobsMax);
}

TEST(LogprobsTest, ARowThatIsNotFiniteIsRefused) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> logits(300, 1.0f);
    logits[290] = bad;
    EXPECT_EQ(ReadLogprobs(logits, 0, 5).status().code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace numoe::execution
