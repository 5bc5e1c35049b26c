// Compares embedding, norms, rotation and the other element-wise kernels with double precision, under every
// schedule.

#include "coordinator/execution/device/cuda/kernels/elementwise.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/formats/bf16.h"
#include "common/formats/fp8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/device_buffer.h"

namespace numoe::execution {
namespace {

using cuda::Bf16;

constexpr double kBf16Half = 0x1p-8;  // relative error of rounding to BF16 (8 significant bits)
constexpr double kFloatHalf = 0x1p-24;

float Widened(float value) { return value; }
float Widened(Bf16 value) { return DecodeBf16(value.bits); }
template <class T>
T Make(float value);
template <>
float Make<float>(float value) {
  return value;
}
template <>
Bf16 Make<Bf16>(float value) {
  return {EncodeBf16(value)};
}

template <class T>
std::vector<T> RandomValues(size_t size, uint64_t seed, double scale = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> values(size);
  for (T& value : values) value = Make<T>(static_cast<float>(normal(random)));
  return values;
}

/// Returns the RmsNorm of `width` values, in double.
std::vector<double> NormReference(const std::vector<double>& in, const float* weight, double eps) {
  double squares = 0;
  for (const double value : in) squares += value * value;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(in.size()) + eps);
  std::vector<double> out(in.size());
  for (size_t i = 0; i < in.size(); ++i) out[i] = in[i] * scale * weight[i];
  return out;
}

/// Allows one rounding to BF16 of a result in fp32, whose sum of squares is off by at most as many roundings
/// as its depth.
void ExpectNorm(double expected, Bf16 got, const std::string& where) {
  EXPECT_NEAR(Widened(got), expected, std::fabs(expected) * (kBf16Half + 128 * kFloatHalf) + 1e-38) << where;
}

template <class T>
void TestNorm(int rows, int heads, int width, bool in_place) {
  const int stride = width + 8;
  const int offset = 8;
  const int row_stride = heads * stride + 16;
  const size_t size = static_cast<size_t>(rows * row_stride);
  const std::vector<T> in = RandomValues<T>(size, static_cast<uint64_t>(width), 3);
  const std::vector<float> weight = RandomValues<float>(static_cast<size_t>(width), 5);
  const std::string where = "rows " + std::to_string(rows) + " width " + std::to_string(width);
  RunUnderAllSchedules([&] {
    DeviceBuffer<T> x(in);
    DeviceBuffer<float> w(weight);
    DeviceBuffer<Bf16> y(size);
    Bf16* out = y.data();
    if constexpr (std::is_same_v<T, Bf16>) out = in_place ? x.data() : y.data();
    cuda::LaunchRmsNorm(cuda::RmsNormArgs<T>{.in = {.data = x.data(),
                                                    .row_stride = row_stride,
                                                    .heads = heads,
                                                    .stride = stride,
                                                    .offset = offset},
                                             .out = {.data = out,
                                                     .row_stride = row_stride,
                                                     .heads = heads,
                                                     .stride = stride,
                                                     .offset = offset},
                                             .weight = w.data(),
                                             .eps = 1e-6f,
                                             .rows = rows,
                                             .width = width},
                        nullptr);
    std::vector<Bf16> got = y.Download();
    if constexpr (std::is_same_v<T, Bf16>) got = in_place ? x.Download() : got;
    for (int row = 0; row < rows; ++row) {
      for (int head = 0; head < heads; ++head) {
        const size_t at = static_cast<size_t>(row * row_stride + head * stride + offset);
        std::vector<double> window;
        for (int i = 0; i < width; ++i) window.push_back(Widened(in[at + static_cast<size_t>(i)]));
        const std::vector<double> expected = NormReference(window, weight.data(), 1e-6);
        for (size_t i = 0; i < window.size(); ++i) ExpectNorm(expected[i], got[at + i], where);
      }
    }
    if (!in_place) {
      EXPECT_TRUE(std::isnan(Widened(got[0]))) << "channels outside the windows must not be written";
    }
  });
}

TEST(CudaElementwiseTest, RmsNormOfEveryWidth) {
  for (const int width : {8, 128, 192, 256, 264, 512, 1024}) TestNorm<float>(3, 2, width, false);
  for (const int width : {1032, 1536, 4104, 7168, 16384}) TestNorm<float>(2, 1, width, false);
  TestNorm<Bf16>(5, 3, 128, true);
  TestNorm<Bf16>(2, 1, 7168, true);
  TestNorm<Bf16>(9, 1, 512, false);
}

template <class T>
void TestAddNorm(int rows, int width) {
  const size_t size = static_cast<size_t>(rows) * static_cast<size_t>(width);
  const std::vector<float> residual = RandomValues<float>(size, 1, 4);
  const std::vector<T> delta = RandomValues<T>(size, 2);
  const std::vector<float> weight = RandomValues<float>(static_cast<size_t>(width), 3);
  RunUnderAllSchedules([&] {
    DeviceBuffer<float> r(residual);
    DeviceBuffer<T> d(delta);
    DeviceBuffer<float> w(weight);
    DeviceBuffer<Bf16> y(size);
    cuda::LaunchAddRmsNorm(cuda::AddRmsNormArgs<T>{.residual = r.data(),
                                                   .delta = d.data(),
                                                   .out = y.data(),
                                                   .weight = w.data(),
                                                   .eps = 1e-5f,
                                                   .rows = rows,
                                                   .width = width},
                           nullptr);
    const std::vector<float> sums = r.Download();
    const std::vector<Bf16> got = y.Download();
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      std::vector<double> window;
      for (size_t i = 0; i < static_cast<size_t>(width); ++i) {
        const size_t at = row * static_cast<size_t>(width) + i;
        EXPECT_EQ(sums[at], residual[at] + Widened(delta[at]));
        window.push_back(sums[at]);
      }
      const std::vector<double> expected = NormReference(window, weight.data(), 1e-5);
      for (size_t i = 0; i < window.size(); ++i) {
        ExpectNorm(expected[i], got[row * window.size() + i], "add");
      }
    }
  });
}

TEST(CudaElementwiseTest, AddRmsNormWritesTheSumToo) {
  TestAddNorm<float>(3, 2048);
  TestAddNorm<Bf16>(2, 7168);
  TestAddNorm<Bf16>(9, 64);
}

TEST(CudaElementwiseTest, NormsOfZeroRowsAreZero) {
  DeviceBuffer<float> x(std::vector<float>(2 * 2048, 0.0f));
  DeviceBuffer<float> w(std::vector<float>(2048, 1.5f));
  DeviceBuffer<Bf16> y(2 * 2048);
  cuda::LaunchRmsNorm(cuda::RmsNormArgs<float>{.in = {.data = x.data(), .row_stride = 2048},
                                               .out = {.data = y.data(), .row_stride = 2048},
                                               .weight = w.data(),
                                               .eps = 1e-6f,
                                               .rows = 2,
                                               .width = 2048},
                      nullptr);
  for (const Bf16 value : y.Download()) EXPECT_EQ(value.bits, 0);
}

TEST(CudaElementwiseTest, EmbedTakesRowsOfBothFormatsAndZerosForPadding) {
  constexpr int kVocabulary = 300, kHidden = 264, kRows = 7;
  const std::vector<Bf16> table = RandomValues<Bf16>(size_t{kVocabulary} * kHidden, 1);
  std::vector<uint8_t> codes(size_t{kVocabulary} * kHidden);
  std::mt19937 random(4);
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random() % 127 + (random() % 2) * 128);  // no NaN
  const std::vector<float> scales = RandomValues<float>(3 * 3, 2);
  const std::vector<int32_t> tokens = {299, 0, -1, 128, 127, -1, 5};
  RunUnderAllSchedules([&] {
    DeviceBuffer<Bf16> bf16(table);
    DeviceBuffer<uint8_t> fp8(codes);
    DeviceBuffer<float> scale(scales);
    DeviceBuffer<int32_t> ids(tokens);
    DeviceBuffer<float> plain(size_t{kRows} * kHidden), scaled(size_t{kRows} * kHidden);
    cuda::EmbedArgs args{.tokens = ids.data(), .rows = kRows, .hidden = kHidden};
    args.bf16 = bf16.data();
    args.out = plain.data();
    cuda::LaunchEmbed(args, nullptr);
    args.bf16 = nullptr;
    args.fp8 = fp8.data();
    args.scales = scale.data();
    args.out = scaled.data();
    cuda::LaunchEmbed(args, nullptr);
    const std::vector<float> a = plain.Download();
    const std::vector<float> b = scaled.Download();
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t i = 0; i < kHidden; ++i) {
        const size_t at = row * kHidden + i;
        if (tokens[row] < 0) {
          EXPECT_EQ(a[at], 0.0f);
          EXPECT_EQ(b[at], 0.0f);
          continue;
        }
        const size_t from = static_cast<size_t>(tokens[row]) * kHidden + i;
        EXPECT_EQ(a[at], Widened(table[from]));
        EXPECT_EQ(b[at],
                  DecodeFp8(codes[from]) * scales[static_cast<size_t>(tokens[row]) / 128 * 3 + i / 128]);
      }
    }
  });
}

void TestRope(bool interleaved, bool in_place, int heads, int pairs) {
  constexpr int kRows = 5;
  const int stride = 2 * pairs + 16;
  const int offset = 8;
  const size_t size = static_cast<size_t>(kRows * heads * stride);
  const std::vector<int32_t> positions = {0, 1, 262143, -1, 40000};
  std::vector<float> inverse;
  for (int i = 0; i < pairs; ++i)
    inverse.push_back(static_cast<float>(std::pow(50000.0, -double(i) / pairs)));
  const std::vector<Bf16> in = RandomValues<Bf16>(size, 9);
  constexpr float kMultiplier = 1.25f;
  RunUnderAllSchedules([&] {
    DeviceBuffer<int32_t> p(positions);
    DeviceBuffer<float> f(inverse);
    DeviceBuffer<float> cos_sin(static_cast<size_t>(kRows * 2 * pairs));
    DeviceBuffer<Bf16> x(in), y(size);
    cuda::LaunchRopeCosSin({.positions = p.data(),
                            .inverse = f.data(),
                            .multiplier = kMultiplier,
                            .cos_sin = cos_sin.data(),
                            .rows = kRows,
                            .pairs = pairs},
                           nullptr);
    DeviceBuffer<Bf16>& to = in_place ? x : y;
    cuda::LaunchRope({.in = {.data = x.data(),
                             .row_stride = heads * stride,
                             .heads = heads,
                             .stride = stride,
                             .offset = offset},
                      .out = {.data = to.data(),
                              .row_stride = heads * stride,
                              .heads = heads,
                              .stride = stride,
                              .offset = offset},
                      .cos_sin = cos_sin.data(),
                      .interleaved = interleaved,
                      .rows = kRows,
                      .pairs = pairs},
                     nullptr);
    const std::vector<Bf16> got = to.Download();
    for (int row = 0; row < kRows; ++row) {
      for (int head = 0; head < heads; ++head) {
        const size_t at = static_cast<size_t>((row * heads + head) * stride + offset);
        for (int i = 0; i < pairs; ++i) {
          const size_t first = at + static_cast<size_t>(interleaved ? 2 * i : i);
          const size_t second = interleaved ? first + 1 : first + static_cast<size_t>(pairs);
          const int32_t position = positions[static_cast<size_t>(row)];
          const double angle = double{inverse[static_cast<size_t>(i)]} * position;
          const double on = position < 0 ? 0 : kMultiplier;
          const double cosine = std::cos(angle) * on, sine = std::sin(angle) * on;
          const double a = Widened(in[first]), b = Widened(in[second]);
          // One rounding to BF16 and the fp32 roundings of two products and their sum.
          const double slack = (std::fabs(a) + std::fabs(b)) * on * 4 * kFloatHalf;
          const double x0 = a * cosine - b * sine, x1 = b * cosine + a * sine;
          EXPECT_NEAR(Widened(got[first]), x0, std::fabs(x0) * kBf16Half + slack)
              << position << " pair " << i;
          EXPECT_NEAR(Widened(got[second]), x1, std::fabs(x1) * kBf16Half + slack)
              << position << " pair " << i;
        }
        if (!in_place) {
          EXPECT_TRUE(std::isnan(Widened(got[at - 1])) && std::isnan(Widened(got[at + size_t(2 * pairs)])));
        }
      }
    }
  });
}

TEST(CudaElementwiseTest, RopeOfBothLayoutsAtFarPositions) {
  TestRope(true, false, 3, 32);
  TestRope(true, true, 1, 8);
  TestRope(false, false, 2, 64);
  TestRope(false, true, 5, 16);
}

TEST(CudaElementwiseTest, SiluMulOfHalvesOfARow) {
  constexpr int kRows = 3, kWidth = 72;
  const std::vector<Bf16> in = RandomValues<Bf16>(size_t{kRows} * 2 * kWidth, 7, 4);
  RunUnderAllSchedules([&] {
    DeviceBuffer<Bf16> x(in), y(size_t{kRows} * kWidth);
    cuda::LaunchSiluMul({.gate = x.data(),
                         .up = x.data() + kWidth,
                         .in_stride = 2 * kWidth,
                         .out = y.data(),
                         .rows = kRows,
                         .width = kWidth},
                        nullptr);
    const std::vector<Bf16> got = y.Download();
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t at = i / kWidth * 2 * kWidth + i % kWidth;
      const double gate = Widened(in[at]);
      const double expected = gate / (1 + std::exp(-gate)) * Widened(in[at + kWidth]);
      EXPECT_NEAR(Widened(got[i]), expected, std::fabs(expected) * (kBf16Half + 1e-5));
    }
  });
}

TEST(CudaElementwiseTest, SiluMulOfExtremesIsFinite) {
  std::vector<Bf16> in;
  for (const float gate : {-3e38f, -200.0f, -88.5f, -0.0f, 0.0f, 88.5f, 200.0f, 3e38f})
    in.push_back(Make<Bf16>(gate));
  DeviceBuffer<Bf16> gate(in), up(std::vector<Bf16>(8, Make<Bf16>(1.0f))), y(8);
  cuda::LaunchSiluMul(
      {.gate = gate.data(), .up = up.data(), .in_stride = 8, .out = y.data(), .rows = 1, .width = 8},
      nullptr);
  const std::vector<Bf16> got = y.Download();
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(Widened(got[i]), i < 5 ? 0.0f : Widened(in[i]), 1e-30 + 1e-2 * (i < 5 ? 0 : Widened(in[i])));
  }
}

TEST(CudaElementwiseTest, SumsAndConversionsOfEverySize) {
  for (const int64_t size : {8, 2040, 2048, 2056}) {
    const std::vector<float> a = RandomValues<float>(static_cast<size_t>(size), 1);
    const std::vector<Bf16> b = RandomValues<Bf16>(static_cast<size_t>(size), 2);
    RunUnderAllSchedules([&] {
      DeviceBuffer<float> sum(a), add(a), wide(static_cast<size_t>(size));
      DeviceBuffer<Bf16> half(b), narrow(static_cast<size_t>(size));
      cuda::LaunchAdd(sum.data(), add.data(), size, nullptr);
      cuda::LaunchAdd(sum.data(), half.data(), size, nullptr);
      cuda::LaunchConvert(add.data(), narrow.data(), size, nullptr);
      cuda::LaunchConvert(half.data(), wide.data(), size, nullptr);
      const std::vector<float> sums = sum.Download(), wides = wide.Download();
      const std::vector<Bf16> narrows = narrow.Download();
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(sums[i], (a[i] + a[i]) + Widened(b[i]));
        EXPECT_EQ(narrows[i].bits, EncodeBf16(a[i]));
        EXPECT_EQ(wides[i], Widened(b[i]));
      }
    });
  }
}

TEST(CudaElementwiseTest, SelectedRowsAreInOrderAndMissingOnesAreZero) {
  constexpr size_t kCols = 12;
  const std::vector<float> in = RandomValues<float>(6 * kCols, 3);
  const std::vector<int32_t> index = {5, 0, -1, 3};
  RunUnderAllSchedules([&] {
    DeviceBuffer<float> x(in), y(4 * kCols);
    DeviceBuffer<int32_t> rows(index);
    cuda::LaunchSelectRows({.in = x.data(),
                            .index = rows.data(),
                            .out = y.data(),
                            .rows = 4,
                            .row_bytes = kCols * sizeof(float)},
                           nullptr);
    const std::vector<float> got = y.Download();
    for (size_t i = 0; i < got.size(); ++i) {
      const int32_t row = index[i / kCols];
      EXPECT_EQ(got[i], row < 0 ? 0.0f : in[static_cast<size_t>(row) * kCols + i % kCols]);
    }
  });
}

}  // namespace
}  // namespace numoe::execution
