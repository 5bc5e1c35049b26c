// Kernels on rounded activations: every format and form that an instruction set has, ragged shapes and every
// number of tokens, against double precision on the unrounded values.
//
// Tolerance. With S = sum |w x|: fp32 accumulation of n products errs by at most (n + 2) 2^-24 S, twice that
// where a group's sum is scaled afterwards; BF16 activations are off by at most 2^-8 of themselves, INT8 ones
// by half a step of their group's top / 127 (matmul_test.cc derives both).
#include "common/kernels/rounded.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "common/kernels/kernels.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

using Rows = std::vector<std::byte>;

class RoundedTest : public ::testing::TestWithParam<std::tuple<Isa, WeightFormat, Precision>> {
 protected:
  void SetUp() override {
    isa_ = std::get<0>(GetParam());
    format_ = std::get<1>(GetParam());
    const absl::StatusOr<Isa> usable = SelectIsa(IsaName(isa_));
    if (!usable.ok()) GTEST_SKIP() << usable.status();
  }
  ActivationForm FormFor(int tokens) const {
    return ChooseForm(isa_, format_, tokens, std::get<2>(GetParam()));
  }

  Isa isa_ = Isa::kScalar;
  WeightFormat format_ = WeightFormat::kBf16;
};

double Tolerance(const PackedMatrix& m, int row, const float* x, ActivationForm form) {
  double magnitude = 0, quantisation = 0;
  for (int group = 0; group < m.cols; group += 32) {
    double top = 0, weights = 0;
    for (int k = group; k < std::min(group + 32, m.cols); ++k) {
      const double w = std::fabs(UnpackWeight(m, row, k));
      magnitude += w * std::fabs(x[k]);
      weights += w;
      top = std::max(top, std::fabs(static_cast<double>(x[k])));
    }
    quantisation += 1.001 * top / 254 * weights;
  }
  return 2 * (m.cols + 2) * 0x1p-24 * magnitude + 1e-30 +
         (form == ActivationForm::kFp32       ? 0
          : form == ActivationForm::kInt8     ? quantisation
          : form == ActivationForm::kInt8Pair ? quantisation / 250
                                              : 0x1p-8 * magnitude);
}

TEST_P(RoundedTest, AgreesWithDoublePrecision) {
  std::mt19937 random(31);
  int checked = 0;
  for (const auto& [rows, cols] : {std::pair{32, 64}, {96, 32}, {40, 96}, {64, 352}, {1, 128}}) {
    const Packed packed = Pack(format_, RandomStored(format_, rows, cols, random).view);
    const Packed after = Pack(format_, RandomStored(format_, 32, cols, random).view);
    for (int tokens = 1; tokens <= 14; ++tokens) {
      const ActivationForm form = FormFor(tokens);
      if (form == ActivationForm::kFloat) continue;
      const std::vector<float> x = RandomFloats(static_cast<size_t>(tokens * cols), random);
      const size_t stride = rounded::RowBytes(form, cols) + 4;
      Rows rounded_rows(static_cast<size_t>(tokens) * stride);
      for (int t = 0; t < tokens; ++t)
        RoundRow(isa_, form, &x[static_cast<size_t>(t * cols)], cols,
                 &rounded_rows[static_cast<size_t>(t) * stride]);
      // Of three panels the last two; of fewer all.
      const int first = rows > 64 ? 32 : 0;
      const int y_stride = rows - first + 3;
      std::vector<float> y(static_cast<size_t>(tokens * y_stride), -77.0f);
      MatmulRounded(isa_, {.weight = packed.matrix,
                           .row_begin = first,
                           .row_end = rows,
                           .form = form,
                           .x = rounded_rows.data(),
                           .x_stride = stride,
                           .tokens = tokens,
                           .y = y.data(),
                           .y_stride = y_stride,
                           .next = tokens % 2 == 0 ? after.matrix.data : nullptr});
      for (int t = 0; t < tokens; ++t) {
        const float* values = &x[static_cast<size_t>(t * cols)];
        const float* out = &y[static_cast<size_t>(t * y_stride)];
        for (int row = first; row < rows; ++row) {
          double expected = 0;
          for (int k = 0; k < cols; ++k)
            expected += static_cast<double>(UnpackWeight(packed.matrix, row, k)) * values[k];
          ASSERT_NEAR(out[row - first], expected, Tolerance(packed.matrix, row, values, form))
              << rows << "x" << cols << " tokens " << tokens << " token " << t << " output " << row;
        }
        for (int i = rows - first; i < y_stride; ++i) ASSERT_EQ(out[i], -77.0f) << "beyond the row";
      }
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << IsaName(isa_) << " takes fp32 for " << WeightFormatName(format_);
}

TEST_P(RoundedTest, ATokensBitsDoNotDependOnTheOthersInOneForm) {
  const ActivationForm form = FormFor(14);
  if (form == ActivationForm::kFloat) GTEST_SKIP() << "fp32";
  constexpr int kTokens = 14, kCols = 192, kRows = 32;
  std::mt19937 random(5);
  const Packed packed = Pack(format_, RandomStored(format_, kRows, kCols, random).view);
  const std::vector<float> x = RandomFloats(kTokens * kCols, random);
  const size_t stride = rounded::RowBytes(form, kCols);
  Rows rows(kTokens * stride);
  for (size_t t = 0; t < kTokens; ++t) RoundRow(isa_, form, &x[t * kCols], kCols, &rows[t * stride]);
  const auto run = [&](size_t first, int tokens) {
    std::vector<float> y(static_cast<size_t>(tokens) * kRows);
    MatmulRounded(isa_, {.weight = packed.matrix,
                         .row_end = kRows,
                         .form = form,
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
}

TEST_P(RoundedTest, PartsOfARowRoundAsTheWhole) {
  const ActivationForm form = FormFor(14);
  if (form == ActivationForm::kFloat) GTEST_SKIP() << "fp32";
  std::mt19937 random(6);
  std::vector<float> x = RandomFloats(224, random);
  std::fill(x.begin() + 64, x.begin() + 96, 0.0f);  // a group of zeros has no scale to divide by
  Rows whole(rounded::RowBytes(form, 224)), parts(whole.size());
  RoundRow(isa_, form, x.data(), 224, whole.data());
  RoundRow(isa_, form, x.data(), 128, parts.data());
  RoundRow(isa_, form, x.data() + 128, 96, &parts[2 * rounded::StepBytes(form)]);
  EXPECT_EQ(whole, parts);
}

INSTANTIATE_TEST_SUITE_P(
    All, RoundedTest,
    ::testing::Combine(::testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx),
                       ::testing::Values(WeightFormat::kRawInt4, WeightFormat::kInt4, WeightFormat::kInt8,
                                         WeightFormat::kBf16, WeightFormat::kFp8),
                       ::testing::Values(Precision::kFast, Precision::kBf16)),
    [](const ::testing::TestParamInfo<RoundedTest::ParamType>& test) {
      return std::string(IsaName(std::get<0>(test.param))) + "_" +
             std::string(WeightFormatName(std::get<1>(test.param))) +
             (std::get<2>(test.param) == Precision::kFast ? "_fast" : "_bf16");
    });

}  // namespace
}  // namespace numoe
