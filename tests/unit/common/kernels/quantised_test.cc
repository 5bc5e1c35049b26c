// Kernels for quantised activations: every weight format and activation format of an instruction set, ragged
// shapes and every number of tokens, compared with double precision on the original values.
//
// Tolerance, with S = sum |w x|. The error of fp32 accumulation of n products is at most (n + 2) 2^-24 S, or
// twice that if a group's sum is scaled afterwards. The error of BF16 activations is at most 2^-8 of
// themselves. That of INT8 ones is half a step of their group's top / 127, which is (top / 254) sum |w| for a
// group. (The two roundings of 127 / top and of its product with x move x by another 2^-22 of top, less than
// 0.001 of half a step.) Tiles round weights to BF16, too: together (1 + 2^-8)^2 - 1 of S. q4_k and q4_1 sum
// codes and minima separately, which together are at most three times a group's largest weight.
#include "common/kernels/quantised.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "common/kernels/kernels.h"
#include "common/kernels/layout.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/emulated_amx.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

using Rows = std::vector<std::byte>;

class QuantisedTest : public ::testing::TestWithParam<std::tuple<Isa, WeightFormat, Precision>> {
 protected:
  void SetUp() override {
    UseEmulator();
    isa_ = std::get<0>(GetParam());
    format_ = std::get<1>(GetParam());
    const absl::StatusOr<Isa> usable = SelectIsa(IsaName(isa_));
    if (!usable.ok()) GTEST_SKIP() << usable.status();
  }
  ActivationFormat FormatFor(int tokens) const {
    return ChooseActivationFormat(isa_, format_, tokens, std::get<2>(GetParam()));
  }

  Isa isa_ = Isa::kScalar;
  WeightFormat format_ = WeightFormat::kBf16;
};

// `quantisation` is the error of INT8 in groups of 32.
double FormatError(ActivationFormat x_format, WeightFormat format, double magnitude, double quantisation) {
  switch (x_format) {
    case ActivationFormat::kFloat:
    case ActivationFormat::kFp32:
    case ActivationFormat::kFp32Fp8:
      return 0;
    case ActivationFormat::kInt8:
      return quantisation;
    case ActivationFormat::kInt8Pair:
    case ActivationFormat::kInt16:
      return quantisation / 250;
    case ActivationFormat::kBf16:
    case ActivationFormat::kBf16Quads:
      return 0x1p-8 * magnitude;
    case ActivationFormat::kTiles:
    case ActivationFormat::kTileQuads:
      return (format == WeightFormat::kBf16 ? 0x1p-8 : 0x1p-7 + 0x1p-16) * magnitude;
  }
  return 0;
}

// Returns every weight that the packed bytes mean, row-major.
std::vector<double> UnpackedWeights(const PackedMatrix& m) {
  std::vector<double> weights;
  weights.reserve(static_cast<size_t>(m.rows) * m.cols);
  for (int row = 0; row < m.rows; ++row) {
    for (int col = 0; col < m.cols; ++col) weights.push_back(UnpackWeight(m, row, col));
  }
  return weights;
}

struct QuantisedExpected {
  double value = 0;
  double tolerance = 0;
};

// Computes one output of `m` from its row of weights `w`.
QuantisedExpected QuantisedReference(const PackedMatrix& m, const double* w, const float* x,
                                     ActivationFormat x_format) {
  double sum = 0, magnitude = 0, quantisation = 0, cancelled = 0;
  for (int group = 0; group < m.cols; group += 32) {
    double top = 0, weights = 0, largest = 0, inputs = 0;
    for (int k = group; k < std::min(group + 32, m.cols); ++k) {
      sum += w[k] * x[k];
      magnitude += std::fabs(w[k] * x[k]);
      weights += std::fabs(w[k]);
      top = std::max(top, std::fabs(static_cast<double>(x[k])));
      largest = std::max(largest, std::fabs(w[k]));
      inputs += std::fabs(static_cast<double>(x[k]));
    }
    if (layout::HasMinima(m.format)) cancelled += 3 * largest * inputs;
    quantisation += 1.001 * top / 254 * weights;
  }
  return {sum, 2 * (m.cols + 2) * 0x1p-24 * (magnitude + cancelled) + 1e-30 +
                   FormatError(x_format, m.format, magnitude, quantisation)};
}

Rows Round(Isa isa, ActivationFormat x_format, const std::vector<float>& x, int cols, size_t stride) {
  Rows rows(x.size() / static_cast<size_t>(cols) * stride);
  for (size_t t = 0; t * stride < rows.size(); ++t)
    QuantiseRow(isa, x_format, &x[t * static_cast<size_t>(cols)], cols, &rows[t * stride]);
  return rows;
}

// Compares a call for outputs [first, rows). The rows of outputs have 3 floats between them, which must stay
// unchanged. x: [tokens, m.cols].
void ExpectAgreementOn(const std::vector<float>& x, Isa isa, const PackedMatrix& m, int first, int tokens,
                       ActivationFormat x_format) {
  constexpr float kUntouched = -77.0f;
  const size_t stride = quantised::RowBytes(x_format, m.cols) + 4;
  const Rows rows = Round(isa, x_format, x, m.cols, stride);
  const int y_stride = m.rows - first + 3;
  std::vector<float> y(static_cast<size_t>(tokens * y_stride), kUntouched);
  MatmulQuantised(isa, {.weight = m,
                        .row_begin = first,
                        .row_end = m.rows,
                        .x_format = x_format,
                        .x = rows.data(),
                        .x_stride = stride,
                        .tokens = tokens,
                        .y = y.data(),
                        .y_stride = y_stride,
                        .next = tokens % 2 == 0 ? m.data : nullptr});
  const std::vector<double> weights = UnpackedWeights(m);
  for (int t = 0; t < tokens; ++t) {
    const float* out = &y[static_cast<size_t>(t * y_stride)];
    for (int row = first; row < m.rows; ++row) {
      const QuantisedExpected e =
          QuantisedReference(m, &weights[static_cast<size_t>(row) * static_cast<size_t>(m.cols)],
                             &x[static_cast<size_t>(t * m.cols)], x_format);
      ASSERT_NEAR(out[row - first], e.value, e.tolerance)
          << m.rows << "x" << m.cols << " tokens " << tokens << " token " << t << " output " << row;
    }
    for (int i = m.rows - first; i < y_stride; ++i) ASSERT_EQ(out[i], kUntouched) << "beyond the row";
  }
}

void ExpectQuantisedAgreement(Isa isa, const PackedMatrix& m, int first, int tokens,
                              ActivationFormat x_format) {
  std::mt19937 random(static_cast<unsigned>(tokens));
  const std::vector<float> x =
      RandomFloats(static_cast<size_t>(tokens) * static_cast<size_t>(m.cols), random);
  ExpectAgreementOn(x, isa, m, first, tokens, x_format);
}

TEST_P(QuantisedTest, AgreesWithDoublePrecision) {
  std::mt19937 random(31);
  int checked = 0;
  for (const auto& [rows, cols] : {std::pair{32, 64}, {96, 32}, {40, 96}, {64, 352}, {1, 128}}) {
    const Packed packed = RandomPacked(format_, rows, cols, random);
    for (int tokens = 1; tokens <= 40; ++tokens) {
      const ActivationFormat x_format = FormatFor(tokens);
      if (x_format == ActivationFormat::kFloat) continue;
      // With three panels the last two are computed, with fewer all.
      ASSERT_NO_FATAL_FAILURE(
          ExpectQuantisedAgreement(isa_, packed.matrix, rows > 64 ? 32 : 0, tokens, x_format));
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << IsaName(isa_) << " takes fp32 for " << WeightFormatName(format_);
}

// The largest codes of both signs are multiplied by the largest activations of both signs: nothing may
// overflow where products are added in few bits.
TEST_P(QuantisedTest, AgreesAtTheEndsOfTheCodes) {
  constexpr int kRows = 32, kCols = 128;
  if (format_ == WeightFormat::kBf16 || format_ == WeightFormat::kFp8)
    GTEST_SKIP() << "these have no codes to add as integers";
  std::mt19937 random(33);
  size_t codes = layout::kInt4Codes;
  if (format_ == WeightFormat::kInt8) codes = layout::kInt8Codes;
  if (format_ == WeightFormat::kQ6K) codes = layout::kQ6KCodes;
  Packed packed = RandomPacked(format_, kRows, kCols, random);
  for (const int byte : {0x00, 0xff, 0x77, 0x88, 0x7f, 0x81}) {
    auto* step = reinterpret_cast<std::byte*>(packed.memory.data());
    for (int s = 0; s < layout::Steps(kCols); ++s, step += layout::StepBytes(format_))
      std::memset(step, byte, codes);
    for (const int tokens : {1, 3, 6}) {
      const ActivationFormat x_format = FormatFor(tokens);
      if (x_format == ActivationFormat::kFloat) GTEST_SKIP() << IsaName(isa_) << " takes fp32";
      for (const float value : {1.0f, -1.0f}) {
        const std::vector<float> x(static_cast<size_t>(tokens) * kCols, value);
        ASSERT_NO_FATAL_FAILURE(ExpectAgreementOn(x, isa_, packed.matrix, 0, tokens, x_format)) << byte;
      }
    }
  }
}

// Magnitudes without a finite inverse, together with others that have one.
TEST_P(QuantisedTest, AgreesOnSubnormals) {
  constexpr int kRows = 32, kCols = 160;
  std::mt19937 random(34);
  const Packed packed = RandomPacked(format_, kRows, kCols, random);
  int checked = 0;
  for (const int tokens : {1, 3, 6, 17}) {
    const ActivationFormat x_format = FormatFor(tokens);
    if (x_format == ActivationFormat::kFloat) continue;
    ++checked;
    for (const float unit : {0x1p-149f, 0x1p-130f, 0x1p-111f, 0x1p-109f}) {
      std::vector<float> x = RandomFloats(static_cast<size_t>(tokens) * kCols, random);
      for (size_t k = 0; k < x.size(); ++k) x[k] *= k / 32 % 2 == 0 ? unit : 1;
      ASSERT_NO_FATAL_FAILURE(ExpectAgreementOn(x, isa_, packed.matrix, 0, tokens, x_format)) << unit;
    }
  }
  if (checked == 0) GTEST_SKIP() << IsaName(isa_) << " takes fp32 for " << WeightFormatName(format_);
}

// A value that is not finite reaches every output of its token, and none of another token.
TEST_P(QuantisedTest, ValuesThatAreNotFiniteAreNotHidden) {
  constexpr int kRows = 40, kCols = 160;
  std::mt19937 random(35);
  const Packed packed = RandomPacked(format_, kRows, kCols, random);
  int checked = 0;
  for (const int tokens : {1, 2, 4, 6, 17}) {
    const ActivationFormat x_format = FormatFor(tokens);
    if (x_format == ActivationFormat::kFloat) continue;
    ++checked;
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> x = RandomFloats(static_cast<size_t>(tokens) * kCols, random);
      const int token = tokens / 2;
      x[static_cast<size_t>(token) * kCols + 77] = bad;
      const size_t stride = quantised::RowBytes(x_format, kCols);
      const Rows rows = Round(isa_, x_format, x, kCols, stride);
      std::vector<float> y(static_cast<size_t>(tokens) * kRows);
      MatmulQuantised(isa_, {.weight = packed.matrix,
                             .row_end = kRows,
                             .x_format = x_format,
                             .x = rows.data(),
                             .x_stride = stride,
                             .tokens = tokens,
                             .y = y.data(),
                             .y_stride = kRows});
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(std::isfinite(y[i]), static_cast<int>(i) / kRows != token)
            << bad << " of " << tokens << ": " << i;
    }
  }
  if (checked == 0) GTEST_SKIP() << IsaName(isa_) << " takes fp32 for " << WeightFormatName(format_);
}

// Enough inputs and tokens that every kernel divides them into several portions.
TEST_P(QuantisedTest, AgreesInPortions) {
  std::mt19937 random(32);
  int checked = 0;
  for (const auto& [rows, cols] : {std::pair{72, 1120}, {96, 512}, {32, 3104}}) {
    const Packed packed = RandomPacked(format_, rows, cols, random);
    for (const int tokens : {16, 33, 70, 257, 300}) {
      const ActivationFormat x_format = FormatFor(tokens);
      if (x_format == ActivationFormat::kFloat) continue;
      ASSERT_NO_FATAL_FAILURE(ExpectQuantisedAgreement(isa_, packed.matrix, 0, tokens, x_format));
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << IsaName(isa_) << " takes fp32 for " << WeightFormatName(format_);
}

TEST_P(QuantisedTest, ATokensBitsDoNotDependOnTheOthersInOneFormat) {
  constexpr int kTokens = 40, kCols = 1056, kRows = 32;
  const ActivationFormat x_format = FormatFor(kTokens);
  if (x_format == ActivationFormat::kFloat)
    GTEST_SKIP() << "this instruction set takes fp32 here, which is not rounded";
  std::mt19937 random(5);
  const Packed packed = RandomPacked(format_, kRows, kCols, random);
  const size_t stride = quantised::RowBytes(x_format, kCols);
  const Rows rows = Round(isa_, x_format, RandomFloats(kTokens * kCols, random), kCols, stride);
  const auto run = [&](size_t first, int tokens) {
    std::vector<float> y(static_cast<size_t>(tokens) * kRows);
    MatmulQuantised(isa_, {.weight = packed.matrix,
                           .row_end = kRows,
                           .x_format = x_format,
                           .x = &rows[first * stride],
                           .x_stride = stride,
                           .tokens = tokens,
                           .y = y.data(),
                           .y_stride = kRows});
    return y;
  };
  const std::vector<float> together = run(0, kTokens);
  for (size_t t = 0; t < kTokens; ++t) {
    EXPECT_EQ(run(t, 1), std::vector<float>(together.begin() + t * kRows, together.begin() + (t + 1) * kRows))
        << t;
  }
  EXPECT_EQ(run(3, 19), std::vector<float>(together.begin() + 3 * kRows, together.begin() + 22 * kRows));
}

// The emulator counts: tiles are used for many tokens, and never for calls that ask for BF16.
TEST_P(QuantisedTest, TilesRunWhereTheContractSaysSo) {
  if (!UseEmulator())
    GTEST_SKIP() << "instructions are counted by the emulator, which this machine does not use";
  std::mt19937 random(22);
  const Packed packed = RandomPacked(format_, 32, 64, random);
  for (const int tokens : {15, 16}) {
    const ActivationFormat x_format = FormatFor(tokens);
    if (x_format == ActivationFormat::kFloat)
      GTEST_SKIP() << "this instruction set takes fp32 here, which is not rounded";
    amx_emulator::ResetCounts();
    ASSERT_NO_FATAL_FAILURE(ExpectQuantisedAgreement(isa_, packed.matrix, 0, tokens, x_format));
    const bool tiles = isa_ == Isa::kAmx && tokens == 16 && std::get<2>(GetParam()) == Precision::kFast;
    // 32 outputs x 64 inputs: two tiles of 16 outputs by two of 32 inputs.
    EXPECT_EQ(amx_emulator::Count(amx_emulator::Op::kDotBf16), tiles ? 4u : 0u) << tokens;
    EXPECT_EQ(amx_emulator::Count(amx_emulator::Op::kTileRelease), tiles ? 1u : 0u) << tokens;
  }
}

TEST_P(QuantisedTest, PartsOfARowAreQuantisedLikeTheWhole) {
  const ActivationFormat x_format = FormatFor(16);
  if (x_format == ActivationFormat::kFloat)
    GTEST_SKIP() << "this instruction set takes fp32 here, which is not rounded";
  std::mt19937 random(6);
  std::vector<float> x = RandomFloats(224, random);
  std::fill(x.begin() + 64, x.begin() + 96, 0.0f);  // a group of zeros has no scale to divide by
  Rows whole(quantised::RowBytes(x_format, 224)), parts(whole.size());
  QuantiseRow(isa_, x_format, x.data(), 224, whole.data());
  QuantiseRow(isa_, x_format, x.data(), 128, parts.data());
  QuantiseRow(isa_, x_format, x.data() + 128, 96, &parts[2 * quantised::StepBytes(x_format)]);
  EXPECT_EQ(whole, parts);
}

INSTANTIATE_TEST_SUITE_P(All, QuantisedTest,
                         ::testing::Combine(::testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512,
                                                              Isa::kAmx),
                                            ::testing::ValuesIn(AllFormats()),
                                            ::testing::Values(Precision::kFast, Precision::kBf16)),
                         [](const ::testing::TestParamInfo<QuantisedTest::ParamType>& test) {
                           return std::string(IsaName(std::get<0>(test.param))) + "_" +
                                  std::string(WeightFormatName(std::get<1>(test.param))) +
                                  (std::get<2>(test.param) == Precision::kFast ? "_fast" : "_bf16");
                         });

}  // namespace
}  // namespace numoe
