// Every instruction set this machine has x every format x ragged shapes, against a double-precision reference over the
// weights that the packed bytes stand for.
//
// Tolerance. With S = sum |w x| of an output, fp32 accumulation of n products errs by at most (n + 2) 2^-24 S in any
// order; activations stay fp32 on scalar, AVX2 and AVX-512, so that is the whole error there. AMX rounds activations
// and decoded weights to BF16 (2^-9 each, relative to a product), or for int8 quantises activations by groups of 32:
// at most half a step of top/127 on every x, that is (top / 254) * sum |w|.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "common/formats/bf16.h"
#include "common/formats/int4.h"
#include "common/kernels/cpu_features.h"
#include "common/kernels/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};

// A stored matrix with random content in the format a weight format is packed from.
struct Stored {
  std::vector<std::byte> data;
  std::vector<std::byte> scales;
  MatrixView view;
};

Stored RandomStored(WeightFormat format, int rows, int cols, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Stored s;
  s.view = {.rows = rows, .cols = cols, .data = {}, .scales = {}};
  const auto append = [](std::vector<std::byte>& out, const auto& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof value);
  };
  if (format == WeightFormat::kRawInt4) {
    s.view.format = MatrixFormat::kInt4Group;
    s.view.scale_dtype = DType::kBF16;
    s.view.block_cols = 32;
    for (int i = 0; i < rows * cols / 2; ++i) append(s.data, static_cast<uint8_t>(random()));
    for (int i = 0; i < rows * cols / 32; ++i) append(s.scales, EncodeBf16(0.01f * (1 + std::fabs(normal(random)))));
  } else if (format == WeightFormat::kFp8) {
    s.view.format = MatrixFormat::kFp8Block;
    s.view.block_rows = s.view.block_cols = 128;
    for (int i = 0; i < rows * cols; ++i) {
      auto code = static_cast<uint8_t>(random());
      if ((code & 0x7f) == 0x7f) code = 0x38;
      append(s.data, code);
    }
    for (int i = 0; i < (rows + 127) / 128 * ((cols + 127) / 128); ++i) append(s.scales, 0.01f + 0.01f * std::fabs(normal(random)));
  } else {
    s.view.format = MatrixFormat::kBF16;
    for (int i = 0; i < rows * cols; ++i) append(s.data, EncodeBf16(normal(random)));
  }
  s.view.data = s.data;
  s.view.scales = s.scales;
  return s;
}

struct Packed {
  std::vector<Line> memory;
  PackedMatrix matrix;
};

Packed Pack(WeightFormat format, const MatrixView& view) {
  Packed p;
  const size_t bytes = PackedBytes(format, static_cast<int>(view.rows), static_cast<int>(view.cols));
  p.memory.resize(bytes / sizeof(Line));
  auto* data = reinterpret_cast<std::byte*>(p.memory.data());
  const absl::Status status = PackMatrix(format, view, 0, static_cast<int>(view.rows), 0, static_cast<int>(view.cols),
                                         absl::MakeSpan(data, bytes));
  EXPECT_TRUE(status.ok()) << status;
  p.matrix = {.format = format, .rows = static_cast<int>(view.rows), .cols = static_cast<int>(view.cols), .data = data};
  return p;
}

std::vector<float> Random(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

struct Expected {
  double value = 0;
  double tolerance = 0;
};

Expected Reference(const PackedMatrix& m, int row, const float* x, bool bf16_tiles, bool int8_tiles) {
  double sum = 0, magnitude = 0, quantisation = 0;
  for (int group = 0; group < m.cols; group += 32) {
    double top = 0, weights = 0;
    for (int k = group; k < std::min(group + 32, m.cols); ++k) {
      const double w = UnpackWeight(m, row, k);
      sum += w * x[k];
      magnitude += std::fabs(w * x[k]);
      weights += std::fabs(w);
      top = std::max(top, std::fabs(static_cast<double>(x[k])));
    }
    quantisation += top / 254 * weights;
  }
  double tolerance = (m.cols + 2) * 0x1p-24 * magnitude + 1e-30;
  if (bf16_tiles) tolerance += (2 * 0x1p-9 + 0x1p-17) * magnitude;
  if (int8_tiles) tolerance += 1.001 * quantisation;
  return {sum, tolerance};
}

class MatmulTest : public ::testing::TestWithParam<std::tuple<Isa, WeightFormat>> {
 protected:
  void SetUp() override {
    const absl::StatusOr<Isa> usable = SelectIsa(std::string(IsaName(std::get<0>(GetParam()))));
    if (!usable.ok()) GTEST_SKIP() << usable.status();
  }
};

TEST_P(MatmulTest, AgreesWithDoublePrecision) {
  const auto [isa, format] = GetParam();
  std::mt19937 random(11);
  for (const auto& [rows, cols] : {std::pair{32, 64}, {96, 32}, {64, 352}, {48, 96}, {256, 512}, {1, 128}}) {
    const Stored stored = RandomStored(format, rows, cols, random);
    const Packed packed = Pack(format, stored.view);
    for (const int tokens : {1, 2, 3, 5, 16, 17, 70}) {
      const std::vector<float> x = Random(static_cast<size_t>(tokens) * cols, random);
      std::vector<float> y(static_cast<size_t>(tokens) * rows, -77.0f);
      Matmul(isa, {.weight = packed.matrix, .row_begin = 0, .row_end = rows, .x = x.data(), .x_stride = cols,
                   .tokens = tokens, .y = y.data(), .y_stride = rows});
      const bool tiles = isa == Isa::kAmx && tokens >= 16;
      for (int t = 0; t < tokens; ++t) {
        for (int o = 0; o < rows; ++o) {
          const Expected e = Reference(packed.matrix, o, &x[static_cast<size_t>(t) * cols],
                                       tiles && format != WeightFormat::kInt8, tiles && format == WeightFormat::kInt8);
          ASSERT_NEAR(y[static_cast<size_t>(t) * rows + o], e.value, e.tolerance)
              << rows << "x" << cols << " tokens " << tokens << " token " << t << " output " << o;
        }
      }
    }
  }
}

TEST_P(MatmulTest, PanelRangesGiveTheSameBitsAsTheWhole) {
  const auto [isa, format] = GetParam();
  std::mt19937 random(12);
  const Stored stored = RandomStored(format, 160, 128, random);
  const Packed packed = Pack(format, stored.view);
  const std::vector<float> x = Random(3 * 128, random);
  std::vector<float> whole(3 * 160), parts(3 * 160);
  Matmul(isa, {.weight = packed.matrix, .row_begin = 0, .row_end = 160, .x = x.data(), .x_stride = 128, .tokens = 3,
               .y = whole.data(), .y_stride = 160});
  for (int row = 0; row < 160; row += 64) {
    Matmul(isa, {.weight = packed.matrix, .row_begin = row, .row_end = std::min(row + 64, 160), .x = x.data(),
                 .x_stride = 128, .tokens = 3, .y = parts.data() + row, .y_stride = 160});
  }
  EXPECT_EQ(whole, parts);
}

TEST_P(MatmulTest, ExactRowsDoNotDependOnTheirNeighbours) {
  const auto [isa, format] = GetParam();
  std::mt19937 random(13);
  const Stored stored = RandomStored(format, 64, 256, random);
  const Packed packed = Pack(format, stored.view);
  const std::vector<float> x = Random(40 * 256, random);
  std::vector<float> together(40 * 64), alone(64);
  MatmulArgs args{.weight = packed.matrix, .row_begin = 0, .row_end = 64, .x = x.data(), .x_stride = 256, .tokens = 40,
                  .y = together.data(), .y_stride = 64, .exact = true};
  Matmul(isa, args);
  for (int t = 0; t < 40; ++t) {
    args.x = &x[static_cast<size_t>(t) * 256];
    args.tokens = 1;
    args.y = alone.data();
    Matmul(isa, args);
    EXPECT_EQ(std::memcmp(alone.data(), &together[static_cast<size_t>(t) * 64], 64 * sizeof(float)), 0) << "token " << t;
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

std::string Name(const ::testing::TestParamInfo<std::tuple<Isa, WeightFormat>>& info) {
  return std::string(IsaName(std::get<0>(info.param))) + "_" + std::string(WeightFormatName(std::get<1>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(All, MatmulTest,
                         ::testing::Combine(::testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx),
                                            ::testing::Values(WeightFormat::kRawInt4, WeightFormat::kInt4,
                                                              WeightFormat::kInt8, WeightFormat::kBf16,
                                                              WeightFormat::kFp8)),
                         Name);

TEST(PackMatrixTest, LosslessFormatsKeepEveryWeight) {
  std::mt19937 random(14);
  for (const WeightFormat format : {WeightFormat::kRawInt4, WeightFormat::kBf16, WeightFormat::kFp8}) {
    const Stored stored = RandomStored(format, 160, 256, random);
    const Packed packed = Pack(format, stored.view);
    std::vector<float> expected(160 * 256);
    DecodeMatrix(stored.view, 0, 160, 0, 256, absl::MakeSpan(expected));
    for (int r = 0; r < 160; ++r) {
      for (int c = 0; c < 256; ++c) ASSERT_EQ(UnpackWeight(packed.matrix, r, c), expected[r * 256 + c]) << r << "," << c;
    }
  }
}

TEST(PackMatrixTest, QuantisedFormatsAreWithinHalfAStep) {
  std::mt19937 random(15);
  const Stored stored = RandomStored(WeightFormat::kBf16, 32, 64, random);
  std::vector<float> w(32 * 64);
  DecodeMatrix(stored.view, 0, 32, 0, 64, absl::MakeSpan(w));
  const Packed int8 = Pack(WeightFormat::kInt8, stored.view);
  const Packed int4 = Pack(WeightFormat::kInt4, stored.view);
  for (int r = 0; r < 32; ++r) {
    for (int g = 0; g < 64; g += 32) {
      float top = 0;
      for (int k = 0; k < 32; ++k) top = std::max(top, std::fabs(w[r * 64 + g + k]));
      double squares4 = 0, plain4 = 0;
      for (int k = g; k < g + 32; ++k) {
        ASSERT_LE(std::fabs(UnpackWeight(int8.matrix, r, k) - w[r * 64 + k]), top / 254 * 1.001);
        squares4 += std::pow(UnpackWeight(int4.matrix, r, k) - w[r * 64 + k], 2);
        const float scale = DecodeBf16(EncodeBf16(top / 7));
        plain4 += std::pow(std::nearbyint(w[r * 64 + k] / scale) * scale - w[r * 64 + k], 2);
      }
      EXPECT_LE(squares4, plain4 * 1.0001) << "the fitted scale is worse than the plain one";
    }
  }
}

TEST(PackMatrixTest, RefusesWhatAFormatCannotHold) {
  std::mt19937 random(16);
  const Stored bf16 = RandomStored(WeightFormat::kBf16, 64, 128, random);
  std::vector<Line> memory(1024);
  const auto pack = [&](WeightFormat format, int col_begin, int cols) {
    return std::string(PackMatrix(format, bf16.view, 0, 64, col_begin, cols,
                                  absl::MakeSpan(reinterpret_cast<std::byte*>(memory.data()), PackedBytes(format, 64, cols)))
                           .message());
  };
  EXPECT_THAT(pack(WeightFormat::kRawInt4, 0, 128), ::testing::HasSubstr("raw_int4 needs pack-quantized INT4"));
  EXPECT_THAT(pack(WeightFormat::kFp8, 0, 128), ::testing::HasSubstr("fp8 needs block-FP8"));
  EXPECT_THAT(pack(WeightFormat::kInt4, 16, 64), ::testing::HasSubstr("cut the groups of 32"));
}

TEST(SelectIsaTest, ForcedIsasAreCheckedAndNamesRoundTrip) {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) EXPECT_EQ(*ParseIsa(IsaName(isa)), isa);
  EXPECT_EQ(*SelectIsa("scalar"), Isa::kScalar);
  EXPECT_THAT(std::string(SelectIsa("sse9").status().message()), ::testing::HasSubstr("expected auto, scalar"));
  EXPECT_THAT(DescribeIsas(), ::testing::HasSubstr("scalar yes"));
}

}  // namespace
}  // namespace numoe
