// Passes over rows of logits, compared to the same computations in double precision.
#include "coordinator/execution/sampling/logit_row.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LogitRowTest, KeysHaveTheOrderOfTheFloats) {
  const std::vector<float> ascending = {-kInfinity, -3e38f, -1.0f, -1e-40f,  0.0f,
                                        1e-40f,     1.0f,   3e38f, kInfinity};
  for (size_t i = 0; i + 1 < ascending.size(); ++i)
    EXPECT_LT(OrderKey(ascending[i]), OrderKey(ascending[i + 1])) << ascending[i];
  EXPECT_EQ(OrderKey(-0.0f), OrderKey(0.0f));
}

TEST(LogitRowTest, TiesForTheBestGoToTheLowestIndexInAnyBlock) {
  for (const size_t size : {1u, 1023u, 1024u, 1025u, 5000u}) {
    for (const size_t at : {size_t{0}, size / 2, size - 1}) {
      std::vector<float> row(size, -2.0f);
      row[at] = 3.5f;
      EXPECT_EQ(*FindBest(row), static_cast<TokenId>(at)) << size;
      EXPECT_EQ(LargestKey(row), OrderKey(3.5f));
      row.back() = 3.5f;
      EXPECT_EQ(*FindBest(row), static_cast<TokenId>(at)) << size;
    }
  }
  EXPECT_EQ(*FindBest(std::vector<float>{-0.0f, 0.0f}), 0) << "zeros are equal";
  EXPECT_EQ(*FindBest(std::vector<float>{-5, -4, -6}), 1);
}

TEST(LogitRowTest, ARowThatIsNotFiniteIsDataLoss) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {0u, 1500u, 2999u}) {
      std::vector<float> row(3000, 1.0f);
      row[at] = bad;
      EXPECT_TRUE(absl::IsDataLoss(FindBest(row).status())) << bad << " at " << at;
    }
  }
}

TEST(LogitRowTest, ExponentialsAreWithinTheirErrorBound) {
  for (float x = 0; x > -87; x -= 0.0137f)
    EXPECT_NEAR(ExpOfNegative(x) / std::exp(static_cast<double>(x)), 1, 0x1p-22 + -x * 0x1p-23) << x;
  EXPECT_EQ(ExpOfNegative(0), 1.0f);
  EXPECT_LT(ExpOfNegative(-1000), 1e-37f);
}

TEST(LogitRowTest, SumsOfAnyLength) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> logit(-20, 0);
  for (const size_t size : {1u, 7u, 8u, 9u, 1000u}) {
    std::vector<float> row(size);
    double expected = 0;
    for (float& value : row) expected += std::exp(static_cast<double>(value = logit(random)) - 0.5);
    EXPECT_NEAR(SumOfExps(row, 0.5f) / expected, 1, 1e-6) << size;
  }
}

}  // namespace
}  // namespace numoe::execution
