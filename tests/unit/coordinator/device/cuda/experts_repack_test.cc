// From workers' slices to the device's matrices, byte for byte what packing the published matrix gives.
#include "coordinator/device/cuda/kernels/experts_repack.h"

#include <random>
#include <vector>

#include "common/kernels/kernels.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/device/cuda/dense_reference.h"

namespace numoe::cuda {
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

constexpr DeviceFormat kFormats[] = {DeviceFormat::kBf16, DeviceFormat::kFp8, DeviceFormat::kInt4};

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
  for (const DeviceFormat format : kFormats) {
    CheckPlain(format, 96, 320, {{0, 96, 0, 320}});
    CheckPlain(format, 41, 96, {{0, 41, 0, 96}});
  }
}

TEST(ExpertsRepackTest, SeveralExpertsAtOnce) {
  constexpr int kRows = 96, kCols = 192, kCount = 3;
  for (const DeviceFormat format : kFormats) {
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

// `down` of workers that share the intermediate dimension: each has some of the inputs.
TEST(ExpertsRepackTest, SlicesOfTheInputs) {
  for (const DeviceFormat format : kFormats)
    CheckPlain(format, 72, 320, {{0, 72, 128, 192}, {0, 72, 0, 128}});
}

// `gate` and `up` of such workers: each has some of the outputs.
TEST(ExpertsRepackTest, GatedPairsFromSlicesOfTheOutputs) {
  for (const DeviceFormat format : kFormats) {
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

}  // namespace
}  // namespace numoe::cuda
