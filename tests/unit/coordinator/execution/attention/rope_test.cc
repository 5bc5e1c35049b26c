// YaRN frequencies, compared to values that were computed from the published configurations of the models.
#include "coordinator/execution/attention/rope.h"

#include <cmath>

#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

RopeConfig Yarn(double theta, double factor, double beta_fast, double beta_slow) {
  return {.layout = RopeLayout::kInterleaved,
          .theta = theta,
          .dim = 64,
          .has_yarn = true,
          .yarn = {.factor = factor,
                   .beta_fast = beta_fast,
                   .beta_slow = beta_slow,
                   .mscale = 1.0,
                   .mscale_all_dim = 1.0,
                   .original_max_position_embeddings = 4096}};
}

void ExpectFrequency(const RopeFrequencies& plan, int pair, double expected) {
  EXPECT_NEAR(plan.inverse[pair] / expected, 1.0, 5e-6) << "pair " << pair;
}

TEST(RopeTest, PlainFrequenciesArePowersOfTheta) {
  const RopeFrequencies plan = PlanRope({.theta = 1e6, .dim = 128});
  ASSERT_EQ(plan.inverse.size(), 64u);
  EXPECT_EQ(plan.multiplier, 1.0f);
  for (int i = 0; i < 64; ++i) ExpectFrequency(plan, i, std::pow(1e6, -i / 64.0));
}

TEST(RopeTest, KimiK2InstructHasBetaOneOne) {
  const RopeFrequencies plan = PlanRope(Yarn(50000, 32, 1, 1));
  ExpectFrequency(plan, 9, 0.0476886);
  ExpectFrequency(plan, 19, 0.00162176);
  ExpectFrequency(plan, 20, 3.61405e-5);
  ExpectFrequency(plan, 31, 8.76441e-7);
  EXPECT_EQ(plan.multiplier, 1.0f);
}

TEST(RopeTest, KimiK25) {
  const RopeFrequencies plan = PlanRope(Yarn(50000, 64, 32, 1));
  ExpectFrequency(plan, 9, 0.0437767);
  ExpectFrequency(plan, 12, 0.0116192);
  ExpectFrequency(plan, 19, 1.58375e-4);
  ExpectFrequency(plan, 20, 1.80702e-5);
}

TEST(RopeTest, DeepSeekV3) {
  const RopeFrequencies plan = PlanRope(Yarn(10000, 40, 32, 1));
  ExpectFrequency(plan, 12, 0.0268794);
  ExpectFrequency(plan, 19, 1.37051e-3);
  ExpectFrequency(plan, 20, 7.90569e-4);
  ExpectFrequency(plan, 31, 3.3338e-6);
}

TEST(RopeTest, SoftmaxFactorIsTheSquaredMagnitudeScale) {
  const double width = 1 / std::sqrt(192.0);
  EXPECT_NEAR(YarnSoftmaxFactor(Yarn(50000, 32, 1, 1)) * width, 0.13086080, 1e-7);
  EXPECT_NEAR(YarnSoftmaxFactor(Yarn(50000, 64, 32, 1)) * width, 0.14467963, 1e-7);
  EXPECT_NEAR(YarnSoftmaxFactor(Yarn(10000, 40, 32, 1)) * width, 0.13523378, 1e-7);
  EXPECT_EQ(YarnSoftmaxFactor({.dim = 64}), 1.0);
}

TEST(RopeTest, MultiplierIsTheRatioOfTheTwoScales) {
  RopeConfig config = Yarn(10000, 40, 32, 1);
  config.yarn.mscale_all_dim = 0.5;
  EXPECT_NEAR(PlanRope(config).multiplier, (0.1 * std::log(40) + 1) / (0.05 * std::log(40) + 1), 1e-6);
}

}  // namespace
}  // namespace numoe::execution
