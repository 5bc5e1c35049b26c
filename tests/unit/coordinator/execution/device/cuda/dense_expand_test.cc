// Unpacking to row-major BF16 rounds each weight once and writes nothing else, in every format and for sizes
// that are not multiples of tiles.
#include "coordinator/execution/device/cuda/kernels/dense_expand.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/device/cuda/dense_reference.h"

namespace numoe::execution::cuda {
namespace {

constexpr uint16_t kUntouched = 0x4242;

void Check(DeviceFormat format, int rows, int cols, bool gated) {
  std::mt19937 random(static_cast<unsigned>(rows));
  const PackedOnDevice w(format, rows, cols, gated, 1, random);
  const std::vector<float> values = w.Values(0);
  const int stride = (cols + 7) / 8 * 8 + 8, outputs = rows * (gated ? 2 : 1);
  RunUnderAllSchedules([&] {
    DeviceBuffer<Bf16> out(std::vector<Bf16>(static_cast<size_t>(outputs * stride), Bf16{kUntouched}));
    LaunchExpand({.matrix = w.matrix, .out = out.data(), .out_stride = stride}, nullptr);
    const std::vector<Bf16> got = out.Download();
    for (int row = 0; row < outputs; ++row) {
      for (int col = 0; col < stride; ++col) {
        const uint16_t expected =
            col < cols ? EncodeBf16(values[static_cast<size_t>(row * cols + col)]) : kUntouched;
        ASSERT_EQ(got[static_cast<size_t>(row * stride + col)].bits, expected)
            << "format " << static_cast<int>(format) << " row " << row << " column " << col;
      }
    }
  });
}

TEST(DenseExpandTest, EveryFormatKeepsItsWeights) {
  for (const DeviceFormat format : {DeviceFormat::kBf16, DeviceFormat::kFp8, DeviceFormat::kInt4}) {
    Check(format, 96, 320, false);
    Check(format, 41, 96, false);
    Check(format, 40, 352, true);
  }
  Check(DeviceFormat::kBf16, 33, 75, false);
  Check(DeviceFormat::kFp8, 17, 130, true);
}

}  // namespace
}  // namespace numoe::execution::cuda
