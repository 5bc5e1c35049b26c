// Packing for the device keeps every weight, bit for bit if the format is kept, and padding is zero.
#include "coordinator/execution/device/cuda/device_weights.h"

#include <cstring>
#include <random>
#include <vector>

#include "common/formats/bf16.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe::execution::cuda {
namespace {

struct DeviceWeightsCase {
  WeightFormat source;
  DeviceFormat format;
};
constexpr DeviceWeightsCase kCases[] = {
    {WeightFormat::kRawInt4, DeviceFormat::kInt4}, {WeightFormat::kFp8, DeviceFormat::kFp8},
    {WeightFormat::kBf16, DeviceFormat::kBf16},    {WeightFormat::kRawInt4, DeviceFormat::kBf16},
    {WeightFormat::kFp8, DeviceFormat::kBf16},     {WeightFormat::kQ4K, DeviceFormat::kBf16}};

std::vector<float> Decode(const MatrixView& view) {
  std::vector<float> values(static_cast<size_t>(view.rows * view.cols));
  DecodeMatrix(view, 0, view.rows, 0, view.cols, absl::MakeSpan(values));
  return values;
}

float Expected(DeviceFormat format, float stored) {
  return format == DeviceFormat::kBf16 ? DecodeBf16(EncodeBf16(stored)) : stored;
}

// The output contains garbage at first, because packing must write every byte.
std::vector<std::byte> Garbage(size_t size) { return std::vector<std::byte>(size, std::byte{0x5a}); }

TEST(DeviceWeightsTest, KeepsEveryWeightAndPadsWithZeros) {
  std::mt19937 random(1);
  for (const DeviceWeightsCase& c : kCases) {
    for (const auto& [rows, cols] : {std::pair{32, 64}, {200, 352}, {1, 256}, {33, 32}, {64, 544}}) {
      const Stored stored = RandomStored(c.source, rows, c.source == WeightFormat::kQ4K ? 512 : cols, random);
      const int width = static_cast<int>(stored.view.cols);
      auto bytes = Garbage(DeviceBytes(c.format, rows, width, false));
      PackDeviceMatrix(c.format, stored.view, absl::MakeSpan(bytes));
      const std::vector<float> values = Decode(stored.view);
      const int panels = PanelCount(rows, false), steps = StepCount(width);
      const DeviceMatrix padded{c.format, panels * kPanelOutputs, steps * kStepInputs, false, bytes.data()};
      for (int row = 0; row < padded.rows; ++row) {
        for (int col = 0; col < padded.cols; ++col) {
          const bool inside = row < rows && col < width;
          const size_t at = static_cast<size_t>(row) * static_cast<size_t>(width) + static_cast<size_t>(col);
          ASSERT_EQ(UnpackDeviceWeight(padded, row, col), inside ? Expected(c.format, values[at]) : 0.0f)
              << "row " << row << " column " << col << " of " << rows << " x " << width;
        }
      }
    }
  }
}

TEST(DeviceWeightsTest, AGatedPairHasBothHalvesInOnePanel) {
  std::mt19937 random(2);
  for (const DeviceWeightsCase& c : kCases) {
    const int rows = 152, cols = 512;
    const Stored gate = RandomStored(c.source, rows, cols, random);
    const Stored up = RandomStored(c.source, rows, cols, random);
    auto bytes = Garbage(DeviceBytes(c.format, rows, cols, true));
    PackDeviceGated(c.format, gate.view, up.view, absl::MakeSpan(bytes));
    const std::vector<float> halves[] = {Decode(gate.view), Decode(up.view)};
    const DeviceMatrix matrix{c.format, rows, cols, true, bytes.data()};
    for (int half = 0; half < 2; ++half) {
      for (int row = 0; row < rows; ++row) {
        for (int col = 0; col < cols; ++col) {
          const float stored = halves[half][static_cast<size_t>(row * cols + col)];
          ASSERT_EQ(UnpackDeviceWeight(matrix, row, col, half), Expected(c.format, stored))
              << "half " << half << " row " << row << " column " << col;
        }
      }
    }
  }
}

TEST(DeviceWeightsTest, OnlyFormatsThatTheDeviceDecodesAreKept) {
  std::mt19937 random(3);
  MatrixView int4 = RandomStored(WeightFormat::kRawInt4, 32, 64, random).view;
  EXPECT_EQ(NativeDeviceFormat(int4), DeviceFormat::kInt4);
  int4.scale_dtype = DType::kF16;
  EXPECT_EQ(NativeDeviceFormat(int4), DeviceFormat::kBf16);
  MatrixView fp8 = RandomStored(WeightFormat::kFp8, 32, 64, random).view;
  EXPECT_EQ(NativeDeviceFormat(fp8), DeviceFormat::kFp8);
  fp8.block_cols = 32;
  EXPECT_EQ(NativeDeviceFormat(fp8), DeviceFormat::kBf16);
  EXPECT_EQ(NativeDeviceFormat(RandomStored(WeightFormat::kQ4K, 32, 256, random).view), DeviceFormat::kBf16);
}

TEST(DeviceWeightsTest, ValuesAreRoundedToNearest) {
  std::mt19937 random(4);
  const std::vector<float> values = RandomFloats(48 * 72, random);
  auto bytes = Garbage(DeviceBytes(DeviceFormat::kBf16, 48, 72, false));
  PackDeviceMatrix(DeviceFormat::kBf16, ValuesView(values, 48, 72), absl::MakeSpan(bytes));
  const DeviceMatrix matrix{DeviceFormat::kBf16, 48, 72, false, bytes.data()};
  for (int i = 0; i < 48 * 72; ++i)
    ASSERT_EQ(UnpackDeviceWeight(matrix, i / 72, i % 72),
              DecodeBf16(EncodeBf16(values[static_cast<size_t>(i)])));
}

}  // namespace
}  // namespace numoe::execution::cuda
