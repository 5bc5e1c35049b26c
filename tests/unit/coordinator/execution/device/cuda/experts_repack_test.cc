// Repacking workers' slices to the device's matrices gives the same bytes as packing the published matrix, or
// each of the worker's weights rounded to BF16.
#include "coordinator/execution/device/cuda/kernels/experts_repack.h"

#include <random>
#include <vector>

#include "common/kernels/kernels.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/device/cuda/dense_reference.h"

namespace numoe::execution::cuda {
namespace {

// Rows [row, row + rows) and columns [col, col + cols) as a worker holds them.
struct Slice {
  int row, rows, col, cols;
};

std::vector<std::byte> PackForWorker(WeightFormat format, const MatrixView& view, const Slice& s) {
  std::vector<Line> lines(PackedBytes(format, s.rows, s.cols) / sizeof(Line));
  auto* bytes = reinterpret_cast<std::byte*>(lines.data());
  const absl::Status packed = PackMatrix(format, view, s.row, s.rows, s.col, s.cols,
                                         absl::MakeSpan(bytes, lines.size() * sizeof(Line)));
  EXPECT_TRUE(packed.ok()) << packed;
  return {bytes, bytes + lines.size() * sizeof(Line)};
}

constexpr DeviceFormat kExpertsRepackFormats[] = {DeviceFormat::kBf16, DeviceFormat::kFp8,
                                                  DeviceFormat::kInt4};

void RepackInto(DeviceBuffer<std::byte>& out, const DeviceMatrix& shape, const MatrixView& view, int half,
                const std::vector<Slice>& slices) {
  for (const Slice& s : slices) {
    const DeviceBuffer<std::byte> source(PackForWorker(SourceOf(shape.format), view, s));
    LaunchRepack({source.data(), s.rows, s.cols, shape, out.data(), half, s.row, s.col}, nullptr);
  }
}

void CheckPlain(DeviceFormat format, int rows, int cols, const std::vector<Slice>& slices) {
  std::mt19937 random(static_cast<unsigned>(cols));
  const Stored stored = RandomStored(SourceOf(format), rows, cols, random);
  std::vector<std::byte> expected(DeviceBytes(format, rows, cols, false));
  PackDeviceMatrix(format, stored.view, absl::MakeSpan(expected));
  RunUnderAllSchedules([&] {
    DeviceBuffer<std::byte> out(std::vector<std::byte>(expected.size(), std::byte{0}));
    RepackInto(out, {format, rows, cols, false, nullptr}, stored.view, 0, slices);
    EXPECT_TRUE(out.Download() == expected)
        << "format " << static_cast<int>(format) << " of " << rows << " x " << cols;
  });
}

TEST(ExpertsRepackTest, WholeMatrices) {
  for (const DeviceFormat format : kExpertsRepackFormats) {
    CheckPlain(format, 96, 320, {{0, 96, 0, 320}});
    CheckPlain(format, 41, 96, {{0, 41, 0, 96}});
  }
}

TEST(ExpertsRepackTest, SeveralExpertsAtOnce) {
  constexpr int kRows = 96, kCols = 192, kCount = 3;
  for (const DeviceFormat format : kExpertsRepackFormats) {
    std::mt19937 random(9);
    const size_t bytes = DeviceBytes(format, kRows, kCols, false);
    const size_t stride = PackedBytes(SourceOf(format), kRows, kCols) + 128;
    std::vector<std::byte> source(kCount * stride), expected(kCount * bytes);
    for (size_t i = 0; i < kCount; ++i) {
      const Stored stored = RandomStored(SourceOf(format), kRows, kCols, random);
      const auto packed = PackForWorker(SourceOf(format), stored.view, {0, kRows, 0, kCols});
      std::copy(packed.begin(), packed.end(), source.begin() + static_cast<std::ptrdiff_t>(i * stride));
      PackDeviceMatrix(format, stored.view, absl::MakeSpan(expected).subspan(i * bytes, bytes));
    }
    RunUnderAllSchedules([&] {
      DeviceBuffer<std::byte> out(std::vector<std::byte>(expected.size(), std::byte{0}));
      const DeviceBuffer<std::byte> in(source);
      LaunchRepack({.source = in.data(),
                    .rows = kRows,
                    .cols = kCols,
                    .target = {format, kRows, kCols, false, nullptr},
                    .out = out.data(),
                    .count = kCount,
                    .source_stride = stride,
                    .out_stride = bytes},
                   nullptr);
      EXPECT_TRUE(out.Download() == expected) << "format " << static_cast<int>(format);
    });
  }
}

// `down` of workers that divide the intermediate dimension: each has some of the inputs.
TEST(ExpertsRepackTest, SlicesOfTheInputs) {
  for (const DeviceFormat format : kExpertsRepackFormats)
    CheckPlain(format, 72, 320, {{0, 72, 128, 192}, {0, 72, 0, 128}});
}

// `gate` and `up` of such workers: each has some of the outputs.
TEST(ExpertsRepackTest, GatedPairsFromSlicesOfTheOutputs) {
  for (const DeviceFormat format : kExpertsRepackFormats) {
    for (const int rows : {256, 168}) {
      std::mt19937 random(3);
      const int cols = 160;
      const Stored gate = RandomStored(SourceOf(format), rows, cols, random);
      const Stored up = RandomStored(SourceOf(format), rows, cols, random);
      std::vector<std::byte> expected(DeviceBytes(format, rows, cols, true));
      PackDeviceGated(format, gate.view, up.view, absl::MakeSpan(expected));
      const std::vector<Slice> slices = {{128, rows - 128, 0, cols}, {0, 128, 0, cols}};
      RunUnderAllSchedules([&] {
        DeviceBuffer<std::byte> out(std::vector<std::byte>(expected.size(), std::byte{0}));
        const DeviceMatrix shape{format, rows, cols, true, nullptr};
        RepackInto(out, shape, gate.view, 0, slices);
        RepackInto(out, shape, up.view, 1, slices);
        EXPECT_TRUE(out.Download() == expected)
            << "format " << static_cast<int>(format) << ", " << rows << " rows";
      });
    }
  }
}

constexpr WeightFormat kWidened[] = {WeightFormat::kInt8,  WeightFormat::kQ4K,   WeightFormat::kQ4_0,
                                     WeightFormat::kQ4_1,  WeightFormat::kIq4Nl, WeightFormat::kIq4Xs,
                                     WeightFormat::kMxfp4, WeightFormat::kQ6K};

// A worker's slice in its format, and the weights that it computes with.
struct Widened {
  Widened(WeightFormat format, const MatrixView& view, const Slice& s)
      : bytes(PackForWorker(format, view, s)), matrix{format, s.rows, s.cols, bytes.data()} {}
  uint16_t Bits(int row, int col) const { return EncodeBf16(UnpackWeight(matrix, row, col)); }

  std::vector<std::byte> bytes;
  PackedMatrix matrix;
};

// Expects the slice's weights in one half of the target, beginning at (row, col).
void ExpectWidened(const Widened& slice, DeviceMatrix target, const std::vector<std::byte>& bytes, int half,
                   int row_begin, int col_begin) {
  target.data = bytes.data();
  for (int row = 0; row < slice.matrix.rows; ++row) {
    for (int col = 0; col < slice.matrix.cols; ++col) {
      const float found = UnpackDeviceWeight(target, row_begin + row, col_begin + col, half);
      ASSERT_EQ(EncodeBf16(found), slice.Bits(row, col))
          << WeightFormatName(slice.matrix.format) << ", half " << half << ", row " << row << ", col " << col;
    }
  }
}

TEST(ExpertsRepackTest, OtherFormatsAreRoundedToBf16) {
  for (const WeightFormat format : kWidened) {
    std::mt19937 random(11);
    constexpr int kRows = 41, kCols = 320;
    const Stored stored = RandomStored(format, kRows, kCols, random);
    const Widened slice(format, stored.view, {0, kRows, 0, kCols});
    const DeviceMatrix target{DeviceFormat::kBf16, kRows, kCols, false, nullptr};
    RunUnderAllSchedules([&] {
      DeviceBuffer<std::byte> out(DeviceBytes(DeviceFormat::kBf16, kRows, kCols, false));
      const DeviceBuffer<std::byte> in(slice.bytes);
      LaunchRepack({.source = in.data(),
                    .rows = kRows,
                    .cols = kCols,
                    .target = target,
                    .out = out.data(),
                    .source_format = format},
                   nullptr);
      ExpectWidened(slice, target, out.Download(), 0, 0, 0);
    });
  }
}

// One worker's part of gate, up and down of two experts, whose rows are divided between two workers.
TEST(ExpertsRepackTest, OtherFormatsOfSlicesAndSeveralExperts) {
  for (const WeightFormat format : kWidened) {
    std::mt19937 random(13);
    constexpr int kWidth = 320, kHidden = 256, kFirst = 64, kPart = 256, kCount = 2;
    const DeviceMatrix up{DeviceFormat::kBf16, kWidth, kHidden, true, nullptr};
    const DeviceMatrix down{DeviceFormat::kBf16, kHidden, kWidth, false, nullptr};
    const Slice rows{kFirst, kPart, 0, kHidden}, whole{0, kHidden, 0, kPart};
    std::vector<Widened> halves, downs;
    for (int i = 0; i < kCount; ++i) {
      for (int half = 0; half < 2; ++half)
        halves.emplace_back(format, RandomStored(format, kWidth, kHidden, random).view, rows);
      downs.emplace_back(format, RandomStored(format, kHidden, kPart, random).view, whole);
    }
    const size_t up_bytes = DeviceBytes(DeviceFormat::kBf16, kWidth, kHidden, true);
    const size_t down_bytes = DeviceBytes(DeviceFormat::kBf16, kHidden, kWidth, false);
    const size_t half_bytes = halves[0].bytes.size(), expert_bytes = 2 * half_bytes + downs[0].bytes.size();
    std::vector<std::byte> source;
    for (int i = 0; i < kCount; ++i) {
      for (const Widened* part : {&halves[2 * i], &halves[2 * i + 1], &downs[i]})
        source.insert(source.end(), part->bytes.begin(), part->bytes.end());
    }
    const DeviceBuffer<std::byte> in(source);
    DeviceBuffer<std::byte> ups(kCount * up_bytes), outs(kCount * down_bytes);
    for (int half = 0; half < 2; ++half) {
      LaunchRepack({.source = in.data() + half * half_bytes,
                    .rows = kPart,
                    .cols = kHidden,
                    .target = up,
                    .out = ups.data(),
                    .half = half,
                    .row_begin = kFirst,
                    .count = kCount,
                    .source_stride = expert_bytes,
                    .out_stride = up_bytes,
                    .source_format = format},
                   nullptr);
    }
    LaunchRepack({.source = in.data() + 2 * half_bytes,
                  .rows = kHidden,
                  .cols = kPart,
                  .target = down,
                  .out = outs.data(),
                  .col_begin = kFirst,
                  .count = kCount,
                  .source_stride = expert_bytes,
                  .out_stride = down_bytes,
                  .source_format = format},
                 nullptr);
    const auto gated = ups.Download(), plain = outs.Download();
    for (size_t i = 0; i < kCount; ++i) {
      const auto at = [&](const std::vector<std::byte>& all, size_t each) {
        return std::vector<std::byte>(all.begin() + static_cast<std::ptrdiff_t>(i * each),
                                      all.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
      };
      ExpectWidened(halves[2 * i], up, at(gated, up_bytes), 0, kFirst, 0);
      ExpectWidened(halves[2 * i + 1], up, at(gated, up_bytes), 1, kFirst, 0);
      ExpectWidened(downs[i], down, at(plain, down_bytes), 0, 0, kFirst);
    }
  }
}

}  // namespace
}  // namespace numoe::execution::cuda
