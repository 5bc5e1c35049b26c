// Tests every instruction set of this machine x every format x ragged shapes, against a double-precision
// reference over the weights that the packed bytes mean.
//
// Tolerance. With S = sum |w x| of an output, the error of fp32 accumulation of n products is at most (n + 2)
// 2^-24 S in any order. Activations stay fp32, so that is the whole error.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "common/kernels/kernels.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/emulated_amx.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

struct Expected {
  double value = 0;
  double tolerance = 0;
};

// Returns every weight that the packed bytes mean, row-major.
std::vector<double> Unpacked(const PackedMatrix& m) {
  std::vector<double> weights;
  weights.reserve(static_cast<size_t>(m.rows) * m.cols);
  for (int row = 0; row < m.rows; ++row) {
    for (int col = 0; col < m.cols; ++col) weights.push_back(UnpackWeight(m, row, col));
  }
  return weights;
}

// Computes one output from its row of weights `w`.
Expected MatmulReference(const PackedMatrix& m, const double* w, const float* x) {
  double sum = 0, magnitude = 0;
  for (int k = 0; k < m.cols; ++k) {
    sum += w[k] * x[k];
    magnitude += std::fabs(w[k] * x[k]);
  }
  return {sum, (m.cols + 2) * 0x1p-24 * magnitude + 1e-30};
}

class MatmulTest : public ::testing::TestWithParam<std::tuple<Isa, WeightFormat>> {
 protected:
  void SetUp() override {
    UseEmulator();
    const absl::StatusOr<Isa> usable = SelectIsa(std::string(IsaName(std::get<0>(GetParam()))));
    if (!usable.ok()) GTEST_SKIP() << usable.status();
  }
};

// Compares all tokens of a call with the reference. Rows of outputs have 5 floats between them, which must
// stay unchanged.
void ExpectAgreement(Isa isa, const PackedMatrix& matrix, int tokens, std::mt19937& random) {
  constexpr float kUntouched = -77.0f;
  const int x_stride = matrix.cols + 3;
  const int y_stride = matrix.rows + 5;
  const std::vector<float> x = RandomFloats(static_cast<size_t>(tokens) * x_stride, random);
  std::vector<float> y(static_cast<size_t>(tokens) * y_stride, kUntouched);
  Matmul(isa, {.weight = matrix,
               .row_begin = 0,
               .row_end = matrix.rows,
               .x = x.data(),
               .x_stride = x_stride,
               .tokens = tokens,
               .y = y.data(),
               .y_stride = y_stride});
  const std::vector<double> weights = Unpacked(matrix);
  for (int t = 0; t < tokens; ++t) {
    const float* row = &y[static_cast<size_t>(t) * y_stride];
    for (int o = 0; o < matrix.rows; ++o) {
      const double* w = &weights[static_cast<size_t>(o) * matrix.cols];
      const Expected e = MatmulReference(matrix, w, &x[static_cast<size_t>(t) * x_stride]);
      ASSERT_NEAR(row[o], e.value, e.tolerance)
          << matrix.rows << "x" << matrix.cols << " tokens " << tokens << " token " << t << " output " << o;
    }
    for (int o = matrix.rows; o < y_stride; ++o)
      ASSERT_EQ(row[o], kUntouched) << "token " << t << " beyond the row";
  }
}

TEST_P(MatmulTest, AgreesWithDoublePrecision) {
  const auto [isa, format] = GetParam();
  std::mt19937 random(11);
  for (const auto& [rows, cols] : {std::pair{32, 64}, {96, 32}, {64, 352}, {48, 96}, {256, 512}, {1, 128}}) {
    const Packed packed = RandomPacked(format, rows, cols, random);
    for (const int tokens : {1, 2, 3, 5, 16, 17, 70}) {
      ASSERT_NO_FATAL_FAILURE(ExpectAgreement(isa, packed.matrix, tokens, random));
    }
  }
}

TEST_P(MatmulTest, EveryTokenCountFrom1To70) {
  const auto [isa, format] = GetParam();
  std::mt19937 random(21);
  const Packed packed = RandomPacked(format, 40, 96, random);
  for (int tokens = 1; tokens <= 70; ++tokens) {
    ASSERT_NO_FATAL_FAILURE(ExpectAgreement(isa, packed.matrix, tokens, random));
  }
}

TEST_P(MatmulTest, PanelRangesGiveTheSameBitsAsTheWhole) {
  const auto [isa, format] = GetParam();
  std::mt19937 random(12);
  const Packed packed = RandomPacked(format, 160, 128, random);
  const std::vector<float> x = RandomFloats(3 * 128, random);
  std::vector<float> whole(3 * 160), parts(3 * 160);
  Matmul(isa, {.weight = packed.matrix,
               .row_begin = 0,
               .row_end = 160,
               .x = x.data(),
               .x_stride = 128,
               .tokens = 3,
               .y = whole.data(),
               .y_stride = 160});
  for (int row = 0; row < 160; row += 64) {
    Matmul(isa, {.weight = packed.matrix,
                 .row_begin = row,
                 .row_end = std::min(row + 64, 160),
                 .x = x.data(),
                 .x_stride = 128,
                 .tokens = 3,
                 .y = parts.data() + row,
                 .y_stride = 160});
  }
  EXPECT_EQ(whole, parts);
}

TEST_P(MatmulTest, TokensDoNotDependOnTheOtherTokens) {
  const auto [isa, format] = GetParam();
  std::mt19937 random(13);
  const Packed packed = RandomPacked(format, 64, 256, random);
  const std::vector<float> x = RandomFloats(40 * 256, random);
  std::vector<float> together(40 * 64), alone(64);
  MatmulArgs args{.weight = packed.matrix,
                  .row_begin = 0,
                  .row_end = 64,
                  .x = x.data(),
                  .x_stride = 256,
                  .tokens = 40,
                  .y = together.data(),
                  .y_stride = 64};
  Matmul(isa, args);
  for (int t = 0; t < 40; ++t) {
    args.x = &x[static_cast<size_t>(t) * 256];
    args.tokens = 1;
    args.y = alone.data();
    Matmul(isa, args);
    const float* row = &together[static_cast<size_t>(t) * 64];
    EXPECT_EQ(std::memcmp(alone.data(), row, 64 * sizeof(float)), 0) << "token " << t;
  }
}

TEST_P(MatmulTest, SwiGluAgreesWithDoublePrecision) {
  const Isa isa = std::get<0>(GetParam());
  std::vector<float> gate, up;
  for (float g = -90; g < 90; g += 0.37f) {
    gate.push_back(g);
    up.push_back(1.5f - g / 100);
  }
  std::vector<float> out = gate;
  SwiGlu(isa, out.data(), up.data(), static_cast<int64_t>(out.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const double expected = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
    // exp is clamped at 88: below gate -88 the result may be off by up to 90 * 2.5 * exp(-88).
    EXPECT_NEAR(out[i], expected, 2e-6 * std::fabs(expected) + 2e-36) << "gate " << gate[i];
  }
}

std::string MatmulName(const ::testing::TestParamInfo<std::tuple<Isa, WeightFormat>>& info) {
  return std::string(IsaName(std::get<0>(info.param))) + "_" +
         std::string(WeightFormatName(std::get<1>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(All, MatmulTest,
                         ::testing::Combine(::testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512,
                                                              Isa::kAmx),
                                            ::testing::ValuesIn(AllFormats())),
                         MatmulName);

}  // namespace
}  // namespace numoe
