// The product chooses the kernel by the format of its rows, and its bits depend neither on the rows nor on
// the outputs that are computed together.
#include "common/linear/quantised_product.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/emulated_amx.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

constexpr int kOutputs = 100, kInputs = 160, kTokens = 20;

std::vector<float> Product(Isa isa, const PackedMatrix& weight, const QuantisedRows& x) {
  std::vector<float> y(static_cast<size_t>(x.count) * kOutputs, std::nanf(""));
  Multiply(isa, {.weight = weight, .row_end = kOutputs, .x = x, .y = y.data(), .y_stride = kOutputs});
  return y;
}

// Does the same with a panel and a part of the rows at a time.
std::vector<float> ProductInParts(Isa isa, const PackedMatrix& weight, const QuantisedRows& x) {
  std::vector<float> y(static_cast<size_t>(x.count) * kOutputs, std::nanf(""));
  constexpr int kSome = 7;
  for (int first = 0; first < x.count; first += kSome) {
    for (int row = 0; row < kOutputs; row += kPanelRows) {
      Multiply(isa, {.weight = weight,
                     .row_begin = row,
                     .row_end = std::min(row + kPanelRows, kOutputs),
                     .x = x.From(first, std::min(kSome, x.count - first)),
                     .y = &y[static_cast<size_t>(first * kOutputs + row)],
                     .y_stride = kOutputs,
                     .next = PanelAt(weight, 0)});
    }
  }
  return y;
}

TEST(QuantisedProductTest, IsNearTheFp32ProductInEveryFormatAndTheSameInParts) {
  UseEmulator();
  std::mt19937 random(1);
  const std::vector<float> x = RandomFloats(kTokens * kInputs, random);
  for (const WeightFormat format : AllFormats()) {
    const Packed weight = RandomPacked(format, kOutputs, kInputs, random);
    const std::vector<float> expected =
        Product(Isa::kScalar, weight.matrix, PlainRows(ActivationFormat::kFloat, x.data(), kInputs, kTokens));
    double magnitude = 0;
    for (const float value : expected) magnitude = std::max(magnitude, std::fabs(double{value}));
    for (const char* name : {"scalar", "avx2", "avx512", "amx"}) {
      if (!SelectIsa(name).ok()) continue;
      const Isa isa = *ParseIsa(name);
      for (const Precision precision : {Precision::kFast, Precision::kBf16, Precision::kFloat}) {
        SCOPED_TRACE(
            fmt::format("{} {}, precision {}", name, WeightFormatName(format), static_cast<int>(precision)));
        const ActivationFormat x_format = ChooseActivationFormat(isa, format, kTokens, precision);
        std::vector<std::byte> memory(QuantisedMemory::Bytes(x_format, kInputs, kTokens));
        const QuantisedMemory rows{x_format, kInputs, kTokens, memory.data()};
        for (int t = 0; t < kTokens; ++t) rows.Write(isa, t, &x[static_cast<size_t>(t) * kInputs]);
        const std::vector<float> y = Product(isa, weight.matrix, rows.rows());
        // With a wrong row or panel the error would be as large as the outputs. The kernels' tests check the
        // formats' bounds.
        EXPECT_THAT(y, ::testing::Pointwise(::testing::FloatNear(0.03 * magnitude), expected));
        EXPECT_EQ(ProductInParts(isa, weight.matrix, rows.rows()), y);
      }
    }
  }
}

TEST(PanelTest, BytesAddUpToThePackedMatrix) {
  std::mt19937 random(2);
  for (const WeightFormat format : AllFormats()) {
    const Packed weight = RandomPacked(format, kOutputs, kInputs, random);
    EXPECT_EQ(MatrixBytes(weight.matrix), PackedBytes(format, kOutputs, kInputs));
    EXPECT_EQ(PanelAt(weight.matrix, 96), weight.matrix.data + 3 * PanelBytes(weight.matrix));
  }
}

}  // namespace
}  // namespace numoe
