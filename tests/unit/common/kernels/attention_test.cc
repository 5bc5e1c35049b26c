// Tests attention's kernels on every instruction set that this machine has: packed cache rows against the
// packing of the same matrix, softmax and joining against double precision, and a complete attention made of
// these parts.
//
// Tolerances. The error of a weight exp(x) is 2^-22 of itself because of the polynomial, 2^-23 |x| e^x <
// 2^-24 because of the rounding of x * log2(e), and 2^-8 of itself in BF16. Sums of n weights add (n + 2)
// 2^-24 of the sum.
#include "common/kernels/attention.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "common/formats/bf16.h"
#include "common/kernels/kernels.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

class AttentionTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    const absl::StatusOr<Isa> usable = SelectIsa(IsaName(GetParam()));
    if (!usable.ok()) GTEST_SKIP() << usable.status();
  }
};

// A cache whose rows are in any order, with other values around them. The first `coded` values of each row
// are FP8.
struct Cache {
  int coded = 0;
  std::vector<std::byte> bytes;
  std::vector<uint8_t> exponent_bytes;
  std::vector<const std::byte*> rows;
  std::vector<const uint8_t*> exponents;

  Cache(int count, int row_width, std::mt19937& random, int coded_values = 0) : coded(coded_values) {
    std::normal_distribution<float> normal;
    const size_t row_bytes = cache_row::Bytes(row_width, coded);
    const auto groups = static_cast<size_t>(cache_row::Groups(coded));
    bytes.resize(static_cast<size_t>(count) * row_bytes);
    exponent_bytes.resize(static_cast<size_t>(count) * groups);
    std::vector<size_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      // The magnitudes differ from row to row, and so do the exponents.
      const float size = std::exp2(static_cast<float>(static_cast<int>(random() % 21) - 10));
      std::vector<float> values(static_cast<size_t>(row_width));
      for (float& v : values) v = normal(random) * (coded > 0 ? size : 1);
      std::byte* row = &bytes[i * row_bytes];
      uint8_t* exponent = exponent_bytes.data() + i * groups;
      NarrowRow(Isa::kScalar, values.data(), coded, reinterpret_cast<uint8_t*>(row), exponent);
      for (size_t k = static_cast<size_t>(coded); k < values.size(); ++k) {
        const uint16_t value = EncodeBf16(values[k]);
        std::memcpy(row + cache_row::Offset(static_cast<int>(k), coded), &value, sizeof value);
      }
      rows.push_back(row);
      exponents.push_back(exponent);
    }
  }
  CacheRows Rows(int width) const { return Rows(0, static_cast<int>(rows.size()), 0, width); }
  // Returns values [from, from + width) of `count` rows. REQUIRES: from == 0 if rows are coded.
  CacheRows Rows(int first, int count, int from, int width) const {
    moved_.assign(rows.begin() + first, rows.begin() + first + count);
    for (const std::byte*& row : moved_) row += static_cast<size_t>(from) * sizeof(uint16_t);
    return {moved_.data(), count, width, std::min(coded, width), exponents.data() + first};
  }
  // Returns every value in BF16, as the format defines it.
  uint16_t At(int row, int k) const {
    const std::byte* at = rows[static_cast<size_t>(row)] + cache_row::Offset(k, coded);
    if (k < coded) {
      return cache_row::Widen(static_cast<uint8_t>(*at),
                              exponents[static_cast<size_t>(row)][k / cache_row::kGroup]);
    }
    uint16_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

 private:
  mutable std::vector<const std::byte*> moved_;
};

// The numbers of a row's `width` values that are coded: none, all, and a part as in MLA.
std::vector<int> CodedParts(int width) {
  std::vector<int> parts = {0, width};
  if (width > 64) parts.push_back(width / 64 * 64);
  return parts;
}

std::vector<Line> PackedSpace(int rows, int cols) {
  std::vector<Line> lines(PackedBytes(WeightFormat::kBf16, rows, cols) / sizeof(Line));
  std::memset(lines.data(), 0x5a, lines.size() * sizeof(Line));
  return lines;
}

// Returns what PackMatrix packs for the matrix with the given BF16 elements.
template <typename Element>
std::vector<Line> Reference(int rows, int cols, Element element) {
  std::vector<uint16_t> values;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) values.push_back(element(r, c));
  }
  const MatrixView view{.format = MatrixFormat::kBF16,
                        .rows = rows,
                        .cols = cols,
                        .data = absl::MakeSpan(reinterpret_cast<const std::byte*>(values.data()),
                                               values.size() * sizeof(uint16_t))};
  std::vector<Line> out = PackedSpace(rows, cols);
  const absl::Status status =
      PackMatrix(WeightFormat::kBf16, view, 0, rows, 0, cols,
                 absl::MakeSpan(reinterpret_cast<std::byte*>(out.data()), out.size() * sizeof(Line)));
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

bool Same(const std::vector<Line>& a, const std::vector<Line>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Line)) == 0;
}

TEST_P(AttentionTest, PackedRowsAreThePackedMatrix) {
  std::mt19937 random(5);
  for (const int count : {1, 2, 15, 16, 31, 33, 64, 100, 512}) {
    for (const int width : {2, 15, 24, 32, 63, 64, 128, 200, 320}) {
      for (const int coded : CodedParts(width)) {
        const Cache cache(count, coded == width ? width : width + 3, random, coded);
        const CacheRows in = cache.Rows(width);
        const auto at = [&](int key, int k) { return cache.At(key, k); };
        std::vector<Line> keys = PackedSpace(count, width);
        PackKeys(GetParam(), in, reinterpret_cast<std::byte*>(keys.data()));
        EXPECT_TRUE(Same(keys, Reference(count, width, at)))
            << count << " keys of " << width << ", " << coded;
        std::vector<Line> values = PackedSpace(width, count);
        PackValues(GetParam(), in, reinterpret_cast<std::byte*>(values.data()));
        EXPECT_TRUE(Same(values, Reference(width, count, [&](int k, int key) { return at(key, k); })))
            << count << " values of " << width << ", " << coded;
      }
    }
  }
}

// Compares direct products of a few rows with a cache with those of the packed matrices.
void CheckFewRows(Isa isa, ActivationFormat format, const Cache& cache, int count, int width, int rows,
                  std::mt19937& random) {
  const CacheRows in = cache.Rows(width);
  std::vector<Line> keys = PackedSpace(count, width), values = PackedSpace(width, count);
  PackKeys(isa, in, reinterpret_cast<std::byte*>(keys.data()));
  PackValues(isa, in, reinterpret_cast<std::byte*>(values.data()));
  const auto check = [&](const std::vector<Line>& packed, int outputs, int inputs, auto direct) {
    const size_t stride = quantised::RowBytes(format, inputs);
    std::vector<std::byte> x(static_cast<size_t>(rows) * stride);
    for (int r = 0; r < rows; ++r) {
      const std::vector<float> row = RandomFloats(static_cast<size_t>(inputs), random);
      QuantiseRow(isa, format, row.data(), inputs, &x[static_cast<size_t>(r) * stride]);
    }
    std::vector<float> expected(static_cast<size_t>(rows * (outputs + 1)), -7.0f), y = expected;
    MatmulQuantised(isa, {.weight = {WeightFormat::kBf16, outputs, inputs,
                                     reinterpret_cast<const std::byte*>(packed.data())},
                          .row_end = outputs,
                          .x_format = format,
                          .x = x.data(),
                          .x_stride = stride,
                          .tokens = rows,
                          .y = expected.data(),
                          .y_stride = outputs + 1});
    direct(isa, {.cache = in,
                 .x = x.data(),
                 .x_stride = stride,
                 .rows = rows,
                 .y = y.data(),
                 .y_stride = outputs + 1});
    EXPECT_EQ(y, expected) << rows << " rows, " << count << " keys of " << width << ", " << cache.coded;
  };
  check(keys, count, width, ScoreFewRows);
  check(values, width, count, WeighFewRows);
}

// With few rows the cache is not packed, and the results have the same bits.
TEST_P(AttentionTest, FewRowsGiveTheBitsOfThePackedProduct) {
  const ActivationFormat format =
      ChooseActivationFormat(GetParam(), WeightFormat::kBf16, 1, Precision::kFast);
  if (!HasFewRows(GetParam(), format))
    GTEST_SKIP() << "this instruction set packs the cache for any number of rows: it has no kernels for few";
  std::mt19937 random(12);
  for (const int count : {1, 2, 17, 64, 100, 512}) {
    for (const int width : {2, 24, 64, 100, 128, 320}) {
      for (const int coded : CodedParts(width)) {
        const Cache cache(count, width, random, coded);
        for (const int rows : {1, 3, 8, 13, 16})
          CheckFewRows(GetParam(), format, cache, count, width, rows, random);
      }
    }
  }
}

// The codes are the same on every instruction set, and the values are as near as the format promises.
TEST_P(AttentionTest, NarrowedRowsAreNearTheirValues) {
  std::mt19937 random(14);
  std::normal_distribution<float> normal;
  for (const int width : {1, 7, 64, 128, 129, 300, 512}) {
    for (const float size : {0x1p-140f, 0x1p-120f, 0x1p-20f, 1.0f, 3.7f, 0x1p40f, 0x1p125f}) {
      std::vector<float> values(static_cast<size_t>(width));
      // From the largest values down to those below the smallest code, of both signs, and zeros.
      for (float& v : values)
        v = random() % 8 == 0 ? 0.0f : normal(random) * size * std::exp2(-static_cast<float>(random() % 20));
      std::vector<uint8_t> codes(values.size()), expected_codes(values.size());
      std::vector<uint8_t> exponents(static_cast<size_t>(cache_row::Groups(width))), expected = exponents;
      NarrowRow(GetParam(), values.data(), width, codes.data(), exponents.data());
      NarrowRow(Isa::kScalar, values.data(), width, expected_codes.data(), expected.data());
      EXPECT_EQ(codes, expected_codes) << width << " of " << size;
      EXPECT_EQ(exponents, expected) << width << " of " << size;
      const auto* row = reinterpret_cast<const std::byte*>(codes.data());
      const uint8_t* row_exponents = exponents.data();
      std::vector<uint16_t> wide(values.size());
      WidenRow(GetParam(), {&row, 1, width, width, &row_exponents}, 0, wide.data());
      for (size_t i = 0; i < values.size(); ++i) {
        const auto group =
            values.begin() + static_cast<std::ptrdiff_t>(i / cache_row::kGroup * cache_row::kGroup);
        const auto end = values.end() - group < cache_row::kGroup ? values.end() : group + cache_row::kGroup;
        double largest = 0;
        for (auto v = group; v < end; ++v) largest = std::max(largest, std::fabs(static_cast<double>(*v)));
        const double value = values[i];
        // With the smallest scale, values below 2^-125 have no code.
        EXPECT_NEAR(DecodeBf16(wide[i]), value,
                    std::max({0x1p-4 * std::fabs(value), 0x1p-14 * largest, 0x1p-125}))
            << i << " of " << width << " around " << size;
        EXPECT_TRUE(value != 0 || wide[i] == 0) << "zero stays zero";
      }
    }
  }
}

// Every code with every exponent is the number that OCP's E4M3 and a power of two give.
TEST_P(AttentionTest, WideCodesAreE4m3TimesAPowerOfTwo) {
  std::vector<uint8_t> codes;
  for (int code = 0; code < 256; ++code) {
    const int magnitude = code & 0x7f;
    if (magnitude == 0 || (magnitude >= cache_row::kSmallestCode && magnitude <= cache_row::kLargestCode))
      codes.push_back(static_cast<uint8_t>(code));
  }
  codes.resize(cache_row::kGroup * 2);
  for (int exponent = cache_row::kExponentMin; exponent <= cache_row::kExponentMax; ++exponent) {
    const std::vector<uint8_t> exponents(2, static_cast<uint8_t>(exponent));
    const auto* row = reinterpret_cast<const std::byte*>(codes.data());
    const uint8_t* row_exponents = exponents.data();
    std::vector<uint16_t> wide(codes.size());
    const int width = static_cast<int>(codes.size());
    WidenRow(GetParam(), {&row, 1, width, width, &row_exponents}, 0, wide.data());
    for (size_t i = 0; i < codes.size(); ++i) {
      const double e4m3 =
          (codes[i] & 0x7f) == 0 ? 0 : std::ldexp(1 + (codes[i] & 7) / 8.0, ((codes[i] >> 3) & 15) - 7);
      const double expected = std::ldexp((codes[i] & 0x80) != 0 ? -e4m3 : e4m3, exponent - 120);
      EXPECT_EQ(DecodeBf16(wide[i]), expected) << static_cast<int>(codes[i]) << " times 2^" << exponent - 120;
    }
  }
}

TEST_P(AttentionTest, AGroupThatIsNotFiniteIsNotHidden) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(256, 1.0f);
    values[130] = bad;
    std::vector<uint8_t> codes(256), exponents(2);
    NarrowRow(GetParam(), values.data(), 256, codes.data(), exponents.data());
    const auto* row = reinterpret_cast<const std::byte*>(codes.data());
    const uint8_t* row_exponents = exponents.data();
    const CacheRows in{&row, 1, 256, 256, &row_exponents};
    std::vector<uint16_t> wide(256);
    WidenRow(GetParam(), in, 0, wide.data());
    for (size_t i = 0; i < 256; ++i) EXPECT_EQ(std::isnan(DecodeBf16(wide[i])), i >= 128) << i;
    std::vector<Line> packed = PackedSpace(1, 256);
    PackKeys(GetParam(), in, reinterpret_cast<std::byte*>(packed.data()));
    EXPECT_TRUE(Same(packed, Reference(1, 256, [&](int, int k) { return wide[static_cast<size_t>(k)]; })));
  }
}

float WeightAt(const std::vector<std::byte>& weights, ActivationFormat format, int i) {
  if (format == ActivationFormat::kBf16) {
    uint16_t bits;
    std::memcpy(&bits, &weights[static_cast<size_t>(i) * 2], sizeof bits);
    return DecodeBf16(bits);
  }
  float value;
  std::memcpy(&value, &weights[static_cast<size_t>(i) * 4], sizeof value);
  return value;
}

TEST_P(AttentionTest, SoftmaxAgreesWithDoublePrecision) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  for (const ActivationFormat format :
       {ActivationFormat::kFloat, ActivationFormat::kFp32, ActivationFormat::kBf16}) {
    for (const int valid : {1, 2, 7, 8, 16, 17, 31, 64, 200, 511, 512}) {
      const int count = std::min(512, valid + valid % 5);
      const float scale = 0.1f + 0.05f * static_cast<float>(valid % 3);
      std::vector<float> scores(
          512,
          std::numeric_limits<float>::quiet_NaN());  // values after `valid` are never read
      for (int i = 0; i < valid; ++i) scores[static_cast<size_t>(i)] = 60 * normal(random);
      std::vector<std::byte> weights(quantised::RowBytes(format, count), std::byte{0x5a});
      const SoftmaxPart part = Softmax(GetParam(), {.scores = scores.data(),
                                                    .valid = valid,
                                                    .count = count,
                                                    .scale = scale,
                                                    .format = format,
                                                    .weights = weights.data()});
      const float largest = *std::max_element(scores.begin(), scores.begin() + valid);
      EXPECT_FLOAT_EQ(part.top, largest * scale);
      double sum = 0;
      for (int i = 0; i < valid; ++i) {
        const double x = (static_cast<double>(scores[static_cast<size_t>(i)]) - largest) * scale;
        const double expected = std::exp(x);
        sum += expected;
        const double relative =
            0x1p-22 + std::fabs(x) * 0x1p-22 + (format == ActivationFormat::kBf16 ? 0x1p-8 : 0);
        EXPECT_NEAR(WeightAt(weights, format, i), expected, relative * expected + 1e-37)
            << i << " of " << valid;
      }
      EXPECT_NEAR(part.sum, sum, (valid + 10) * 0x1p-22 * sum);
      for (int i = valid; i < static_cast<int>(weights.size() / (format == ActivationFormat::kBf16 ? 2 : 4));
           ++i)
        EXPECT_EQ(WeightAt(weights, format, i), 0.0f) << i << " of " << valid;
    }
  }
}

// Values after a row's last valid score do not change a bit of it.
TEST_P(AttentionTest, SoftmaxDependsOnItsValidScoresOnly) {
  std::mt19937 random(7);
  const std::vector<float> scores = RandomFloats(512, random);
  const auto run = [&](int count) {
    std::vector<std::byte> weights(quantised::RowBytes(ActivationFormat::kFloat, 512));
    const SoftmaxPart part = Softmax(GetParam(), {.scores = scores.data(),
                                                  .valid = 77,
                                                  .count = count,
                                                  .format = ActivationFormat::kFloat,
                                                  .weights = weights.data()});
    return std::tuple(weights, part.top, part.sum);
  };
  EXPECT_EQ(run(77), run(512));
}

TEST_P(AttentionTest, ANanScoreIsNotHidden) {
  for (const int valid : {1, 20, 64}) {
    for (int bad = 0; bad < valid; bad += 3) {
      std::vector<float> scores(64, 1.0f);
      scores[static_cast<size_t>(bad)] = std::numeric_limits<float>::quiet_NaN();
      std::vector<std::byte> weights(quantised::RowBytes(ActivationFormat::kFloat, 64));
      const SoftmaxPart part = Softmax(
          GetParam(), {.scores = scores.data(), .valid = valid, .count = 64, .weights = weights.data()});
      EXPECT_TRUE(std::isnan(part.sum)) << bad << " of " << valid;
    }
  }
}

constexpr int kKeys = 200, kFirst = 128, kKeyWidth = 96, kValueWidth = 64, kRows = 5;
constexpr float kScale = 0.1f;

// Computes one row's attention over cache rows with a key and a value each.
std::vector<double> AttendInDouble(const Cache& cache, const float* q) {
  std::vector<double> p;
  for (int key = 0; key < kKeys; ++key) {
    double score = 0;
    for (int k = 0; k < kKeyWidth; ++k) score += static_cast<double>(q[k]) * DecodeBf16(cache.At(key, k));
    p.push_back(std::exp(score * kScale));
  }
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  std::vector<double> out(kValueWidth);
  for (size_t key = 0; key < p.size(); ++key) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] += p[key] / sum * DecodeBf16(cache.At(static_cast<int>(key), kKeyWidth + static_cast<int>(i)));
  }
  return out;
}

// Computes the context [kRows, kValueWidth] of the keys [begin, end), unnormalised, and each row's part.
std::vector<SoftmaxPart> AttendPart(Isa isa, const Cache& cache, int begin, int end,
                                    const std::vector<float>& q, std::vector<float>& context) {
  const int keys = end - begin;
  std::vector<Line> packed_keys = PackedSpace(keys, kKeyWidth),
                    packed_values = PackedSpace(kValueWidth, keys);
  auto* key_bytes = reinterpret_cast<std::byte*>(packed_keys.data());
  auto* value_bytes = reinterpret_cast<std::byte*>(packed_values.data());
  PackKeys(isa, cache.Rows(begin, keys, 0, kKeyWidth), key_bytes);
  PackValues(isa, cache.Rows(begin, keys, kKeyWidth, kValueWidth), value_bytes);
  std::vector<float> scores(static_cast<size_t>(kRows * keys));
  std::vector<float> weights(static_cast<size_t>(kRows * 256));
  Matmul(isa, {.weight = {WeightFormat::kBf16, keys, kKeyWidth, key_bytes},
               .row_end = keys,
               .x = q.data(),
               .x_stride = kKeyWidth,
               .tokens = kRows,
               .y = scores.data(),
               .y_stride = keys});
  std::vector<SoftmaxPart> parts;
  for (int r = 0; r < kRows; ++r) {
    auto* row = reinterpret_cast<std::byte*>(&weights[static_cast<size_t>(r * 256)]);
    parts.push_back(Softmax(isa, {.scores = &scores[static_cast<size_t>(r * keys)],
                                  .valid = keys,
                                  .count = keys,
                                  .scale = kScale,
                                  .weights = row}));
  }
  Matmul(isa, {.weight = {WeightFormat::kBf16, kValueWidth, keys, value_bytes},
               .row_end = kValueWidth,
               .x = weights.data(),
               .x_stride = 256,
               .tokens = kRows,
               .y = context.data(),
               .y_stride = kValueWidth});
  return parts;
}

// Attention made of its parts as the device does it, compared with double precision.
TEST_P(AttentionTest, TwoPartsJoinedAreTheWhole) {
  std::mt19937 random(8);
  const Cache cache(kKeys, kKeyWidth + kValueWidth, random);
  const std::vector<float> q = RandomFloats(kRows * kKeyWidth, random);
  std::vector<float> out(kRows * kValueWidth), second(kRows * kValueWidth);
  const std::vector<SoftmaxPart> a = AttendPart(GetParam(), cache, 0, kFirst, q, out);
  const std::vector<SoftmaxPart> b = AttendPart(GetParam(), cache, kFirst, kKeys, q, second);
  for (size_t r = 0; r < kRows; ++r) {
    const float top = std::max(a[r].top, b[r].top);
    const float keep = std::exp(a[r].top - top), add = std::exp(b[r].top - top);
    JoinParts(GetParam(), &out[r * kValueWidth], keep, &second[r * kValueWidth], add, kValueWidth);
    const float sum = a[r].sum * keep + b[r].sum * add;
    const std::vector<double> expected = AttendInDouble(cache, &q[r * kKeyWidth]);
    for (size_t i = 0; i < kValueWidth; ++i)
      EXPECT_NEAR(out[r * kValueWidth + i] / sum, expected[i], 2e-5) << "row " << r;
  }
}

std::string Name(const ::testing::TestParamInfo<Isa>& info) { return std::string(IsaName(info.param)); }
INSTANTIATE_TEST_SUITE_P(All, AttentionTest, ::testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512), Name);

}  // namespace
}  // namespace numoe
