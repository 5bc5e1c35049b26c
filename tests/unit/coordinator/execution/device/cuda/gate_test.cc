// Compares the device's gate with GateSelector expert by expert, and its logits with double precision.

#include "coordinator/execution/device/cuda/kernels/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "common/formats/bf16.h"
#include "coordinator/execution/gate/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/device_buffer.h"

namespace numoe::execution {
namespace {

using cuda::Bf16;

struct GateCase {
  std::string name;
  int experts = 0;
  GateParams params;
  bool bias = false;
};

std::vector<GateCase> Cases() {
  const auto sigmoid = GateScoring::kSigmoidNoAuxTc;
  const auto softmax = GateScoring::kSoftmax;
  const auto params = [](GateScoring scoring, int k, int groups, int kept, bool norm, float scaling) {
    return GateParams{.scoring = scoring,
                      .experts_per_token = k,
                      .n_group = groups,
                      .topk_group = kept,
                      .norm_topk_prob = norm,
                      .scaling = scaling};
  };
  std::vector<GateCase> cases = {
      {"DeepSeek-V3", 256, params(sigmoid, 8, 8, 4, true, 2.5f), true},
      {"Kimi-K2", 384, params(sigmoid, 8, 1, 1, true, 2.827f), true},
      {"Qwen3", 128, params(softmax, 8, 1, 1, true, 1), false},
      {"512 experts, not normalised", 512, params(softmax, 10, 1, 1, false, 1), false},
      {"groups of 5", 20, params(sigmoid, 3, 4, 2, true, 1), false},
      {"groups of 1", 6, params(sigmoid, 3, 6, 4, true, 1), true},
      {"softmax in groups", 64, params(softmax, 6, 8, 3, false, 16), false},
      {"all of them", 32, params(sigmoid, 32, 1, 1, true, 1), true},
      {"one", 1, params(softmax, 1, 1, 1, true, 1), false}};
  for (size_t i = 0, whole = cases.size(); i < whole; ++i) {
    GateCase deferring = cases[i];
    const int k = deferring.params.experts_per_token;
    deferring.params.deferred_experts = i % 2 == 0 ? std::min(k - 1, 2) : k - 1;
    deferring.name += fmt::format(", {} deferred", deferring.params.deferred_experts);
    if (k > 1) cases.push_back(std::move(deferring));
  }
  return cases;
}

/// Runs both on `rows` rows of logits; row 1 is padding.
void ExpectSameSelection(const GateCase& gate, const std::vector<float>& logits,
                         const std::vector<float>& bias) {
  const auto experts = static_cast<size_t>(gate.experts);
  const auto k = static_cast<size_t>(gate.params.experts_per_token);
  const size_t rows = logits.size() / experts;
  std::vector<int32_t> positions(rows, 3);
  positions[1] = -1;
  DeviceBuffer<float> l(logits), b(bias.empty() ? std::vector<float>(1) : bias), weights(rows * k);
  DeviceBuffer<int32_t> p(positions), chosen(rows * k);
  cuda::LaunchGateSelect({.logits = l.data(),
                          .bias = bias.empty() ? nullptr : b.data(),
                          .positions = p.data(),
                          .chosen = chosen.data(),
                          .weights = weights.data(),
                          .rows = static_cast<int>(rows),
                          .experts = gate.experts,
                          .experts_per_token = gate.params.experts_per_token,
                          .sigmoid = gate.params.scoring == GateScoring::kSigmoidNoAuxTc,
                          .n_group = gate.params.n_group,
                          .topk_group = gate.params.topk_group,
                          .norm_topk_prob = gate.params.norm_topk_prob,
                          .scaling = gate.params.scaling,
                          .deferred_experts = gate.params.deferred_experts},
                         nullptr);
  const std::vector<int32_t> got = chosen.Download();
  const std::vector<float> got_weights = weights.Download();
  GateSelector selector(gate.params, gate.experts);
  std::vector<ExpertId> expected(k);
  std::vector<float> expected_weights(k);
  for (size_t row = 0; row < rows; ++row) {
    selector.Select(absl::MakeConstSpan(&logits[row * experts], experts), bias, absl::MakeSpan(expected),
                    absl::MakeSpan(expected_weights));
    for (size_t i = 0; i < k; ++i) {
      const size_t at = row * k + i;
      ASSERT_EQ(got[at], row == 1 ? -1 : static_cast<int32_t>(expected[i]))
          << gate.name << " row " << row << " " << i;
      // A device's exp differs from the host's by at most 2 ulp; each weight is a quotient of two of them.
      ASSERT_NEAR(got_weights[at], row == 1 ? 0 : expected_weights[i], std::fabs(expected_weights[i]) * 1e-6f)
          << gate.name;
    }
  }
}

TEST(CudaGateTest, SelectsWhatTheReferenceSelects) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  for (const GateCase& gate : Cases()) {
    std::vector<float> logits(static_cast<size_t>(gate.experts) * 61), bias;
    for (float& logit : logits) logit = normal(random);
    for (int e = 0; gate.bias && e < gate.experts; ++e) bias.push_back(normal(random) / 8);
    RunUnderAllSchedules([&] { ExpectSameSelection(gate, logits, bias); });
  }
}

TEST(CudaGateTest, TiesGoToTheLowerIndexAsInTheReference) {
  std::mt19937 random(2);
  for (const GateCase& gate : Cases()) {
    std::vector<float> logits(static_cast<size_t>(gate.experts) * 61), bias;
    for (float& logit : logits) logit = static_cast<float>(random() % 4) - 1.5f;
    for (size_t e = 0; e < static_cast<size_t>(gate.experts); ++e) {
      logits[e] = 0.25f;  // row 0: all are equal
      logits[2 * static_cast<size_t>(gate.experts) + e] = e % 2 == 0 ? 0.0f : -0.0f;
    }
    for (int e = 0; gate.bias && e < gate.experts; ++e) bias.push_back(static_cast<float>(random() % 2) / 4);
    RunUnderAllSchedules([&] { ExpectSameSelection(gate, logits, bias); });
  }
}

TEST(CudaGateTest, ExtremeLogitsSelectTheSameExperts) {
  std::mt19937 random(3);
  for (const GateCase& gate : Cases()) {
    std::vector<float> logits(static_cast<size_t>(gate.experts) * 13);
    for (float& logit : logits)
      logit = (static_cast<float>(random() % 2001) - 1000) / 4;  // sigmoids of 0 and 1
    ExpectSameSelection(gate, logits, {});
  }
}

TEST(CudaGateTest, NanLogitsStillSelectExpertsThatExist) {
  std::vector<float> logits(2 * 256, std::nanf(""));
  for (size_t e = 0; e < 3; ++e) logits[e * 50] = 1;
  DeviceBuffer<float> l(logits), weights(2 * 8);
  DeviceBuffer<int32_t> p(std::vector<int32_t>{0, 0}), chosen(2 * 8);
  for (const bool sigmoid : {true, false}) {
    cuda::LaunchGateSelect({.logits = l.data(),
                            .positions = p.data(),
                            .chosen = chosen.data(),
                            .weights = weights.data(),
                            .rows = 2,
                            .experts = 256,
                            .experts_per_token = 8,
                            .sigmoid = sigmoid,
                            .n_group = 8,
                            .topk_group = 4},
                           nullptr);
    for (const int32_t expert : chosen.Download()) {
      EXPECT_GE(expert, 0);
      EXPECT_LT(expert, 256);
    }
  }
}

template <class T>
std::vector<float> Logits(int rows, int hidden, int experts, const std::vector<Bf16>& in,
                          const std::vector<T>& weight) {
  DeviceBuffer<Bf16> x(std::vector<Bf16>(in.begin(), in.begin() + rows * hidden));
  DeviceBuffer<T> w(weight);
  DeviceBuffer<float> logits(static_cast<size_t>(rows * experts));
  cuda::LaunchGateLogits(cuda::GateLogitsArgs<T>{.in = x.data(),
                                                 .weight = w.data(),
                                                 .logits = logits.data(),
                                                 .rows = rows,
                                                 .hidden = hidden,
                                                 .experts = experts},
                         nullptr);
  return logits.Download();
}

TEST(CudaGateTest, LogitsMatchDoublePrecisionAndDoNotDependOnTheBatch) {
  struct Shape {
    int hidden, experts;
  };
  for (const Shape shape : {Shape{2048, 13}, Shape{264, 20}, Shape{2056, 1}}) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    constexpr int kRows = 19;
    std::vector<Bf16> in(static_cast<size_t>(kRows * shape.hidden));
    std::vector<float> weight(static_cast<size_t>(shape.experts * shape.hidden));
    std::vector<Bf16> narrow(weight.size());
    for (Bf16& value : in) value.bits = EncodeBf16(normal(random));
    for (size_t i = 0; i < weight.size(); ++i) {
      weight[i] = normal(random);
      narrow[i].bits = EncodeBf16(weight[i]);
    }
    RunUnderAllSchedules([&] {
      const std::vector<float> all = Logits(kRows, shape.hidden, shape.experts, in, weight);
      const std::vector<float> all_narrow = Logits(kRows, shape.hidden, shape.experts, in, narrow);
      for (int row = 0; row < kRows; ++row) {
        for (int e = 0; e < shape.experts; ++e) {
          double sum = 0, sum_narrow = 0, absolute = 0;
          for (int h = 0; h < shape.hidden; ++h) {
            const double x = DecodeBf16(in[static_cast<size_t>(row * shape.hidden + h)].bits);
            const auto at = static_cast<size_t>(e * shape.hidden + h);
            sum += x * weight[at];
            sum_narrow += x * DecodeBf16(narrow[at].bits);
            absolute += std::fabs(x * weight[at]);
          }
          // The number of successive roundings: those of a lane, of the butterfly and of the warps.
          const double slack = absolute * (shape.hidden / 256 + 8 + 5 + 8) * 0x1p-24;
          const auto at = static_cast<size_t>(row * shape.experts + e);
          ASSERT_NEAR(all[at], sum, slack);
          ASSERT_NEAR(all_narrow[at], sum_narrow, slack);
        }
      }
      for (const int rows : {1, 7}) {  // other block shapes
        EXPECT_THAT(Logits(rows, shape.hidden, shape.experts, in, weight),
                    testing::ElementsAreArray(all.begin(), all.begin() + rows * shape.experts));
      }
    });
  }
}

}  // namespace
}  // namespace numoe::execution
