#include "coordinator/execution/device/cuda/device_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "common/formats/bf16.h"
#include "common/formats/fp8.h"
#include "common/formats/int4.h"

namespace numoe::execution::cuda {
namespace {

// The row of pair a_j of a lane in its tile of 16 x 16.
constexpr int RowOf(int lane, int j) { return lane / 4 + j % 2 * 8; }
constexpr int ColOf(int lane, int j) { return lane % 4 * 2 + j / 2 * 8; }

template <typename T>
void Store(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof value);
}

// 16 outputs x 64 inputs of a stored matrix; each element is the stored value of its format: BF16 bits, an
// FP8 code or a nibble. Elements outside the matrix are 0.
using Tile = std::array<std::array<uint16_t, kStepInputs>, kTileOutputs>;

void StoreBf16(const Tile& tile, int m, std::byte* step) {
  for (int s = 0; s < 4; ++s) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int j = 0; j < 4; ++j) {
        const uint16_t* pair = &tile[RowOf(lane, j)][s * 16 + ColOf(lane, j)];
        Store(step + Bf16Offset(m, s, lane, j), pair[0] | static_cast<uint32_t>(pair[1]) << 16);
      }
    }
  }
}

void StoreFp8(const Tile& tile, int m, std::byte* step) {
  for (int s = 0; s < 4; ++s) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int j = 0; j < 4; ++j) {
        const uint16_t* pair = &tile[RowOf(lane, j)][s * 16 + ColOf(lane, j)];
        Store(step + Fp8Offset(m, s, lane, j), static_cast<uint16_t>(pair[0] | pair[1] << 8));
      }
    }
  }
}

void StoreInt4(const Tile& tile, int m, std::byte* step) {
  for (int s = 0; s < 4; ++s) {
    for (int lane = 0; lane < 32; ++lane) {
      uint32_t word = 0;
      for (int j = 0; j < 4; ++j) {
        const uint16_t* pair = &tile[RowOf(lane, j)][s * 16 + ColOf(lane, j)];
        word |= static_cast<uint32_t>(pair[0]) << (4 * j) | static_cast<uint32_t>(pair[1]) << (16 + 4 * j);
      }
      Store(step + Int4Offset(m, s, lane), word);
    }
  }
}

// Rows [row, row + 16) and columns [col, col + 64), limited to those of the matrix.
struct Rectangle {
  int64_t row, rows, col, cols;
};

Rectangle Clip(const MatrixView& m, int64_t row, int64_t col) {
  return {row, std::clamp<int64_t>(m.rows - row, 0, kTileOutputs), col,
          std::clamp<int64_t>(m.cols - col, 0, kStepInputs)};
}

Tile ReadTile(DeviceFormat format, const MatrixView& source, const Rectangle& r) {
  Tile tile{};
  const int64_t row_bytes = source.rows > 0 ? static_cast<int64_t>(source.data.size()) / source.rows : 0;
  for (int64_t i = 0; i < r.rows; ++i) {
    const std::byte* row = source.data.data() + (r.row + i) * row_bytes;
    if (format == DeviceFormat::kFp8) {
      for (int64_t c = 0; c < r.cols; ++c) tile[i][c] = std::to_integer<uint16_t>(row[r.col + c]);
    } else if (format == DeviceFormat::kInt4) {
      for (int64_t c = 0; c < r.cols; ++c) tile[i][c] = static_cast<uint16_t>(DecodeInt4(row, r.col + c) + 8);
    } else if (source.format == MatrixFormat::kBF16) {
      std::memcpy(tile[i].data(), row + r.col * 2, static_cast<size_t>(r.cols) * 2);
    } else {
      float values[kStepInputs];
      DecodeMatrix(source, r.row + i, r.row + i + 1, r.col, r.col + r.cols,
                   absl::MakeSpan(values, static_cast<size_t>(r.cols)));
      std::transform(values, values + r.cols, tile[i].begin(), EncodeBf16);
    }
  }
  return tile;
}

void StoreTile(DeviceFormat format, const Tile& tile, int m, std::byte* step) {
  if (format == DeviceFormat::kFp8) return StoreFp8(tile, m, step);
  if (format == DeviceFormat::kInt4) return StoreInt4(tile, m, step);
  StoreBf16(tile, m, step);
}

void StoreInt4Scales(const MatrixView& source, const Rectangle& r, int m, std::byte* step) {
  const int64_t groups = (source.cols + kInt4GroupInputs - 1) / kInt4GroupInputs;
  for (int row = 0; row < kTileOutputs; ++row) {
    for (int group = 0; group < 2; ++group) {
      uint16_t scale = 0;
      const int64_t at = r.col / kInt4GroupInputs + group;
      if (row < r.rows && at < groups)
        std::memcpy(&scale, source.scales.data() + ((r.row + row) * groups + at) * 2, sizeof scale);
      Store(step + Int4ScaleByte(m, row, group), scale);
    }
  }
}

float Fp8Scale(const MatrixView& source, const Rectangle& r) {
  if (r.rows <= 0 || r.cols <= 0) return 0;
  const int64_t at = r.row / source.block_rows * ((source.cols + source.block_cols - 1) / source.block_cols) +
                     r.col / source.block_cols;
  if (source.scale_dtype == DType::kF32) {
    float scale;
    std::memcpy(&scale, source.scales.data() + at * 4, sizeof scale);
    return scale;
  }
  uint16_t bits;
  std::memcpy(&bits, source.scales.data() + at * 2, sizeof bits);
  return DecodeBf16(bits);
}

// Packs tile m of each panel. From one panel to the next its rows move `outputs` rows further in `source`.
void PackTiles(const DevicePack& pack, const MatrixView& source, int m, const PanelRange& panels,
               std::byte* out) {
  const int steps = StepCount(static_cast<int>(source.cols));
  for (int64_t panel = panels.first; panel < panels.last; ++panel) {
    const int64_t row = pack.gated() ? panel * kTileOutputs : panel * kPanelOutputs + m * kTileOutputs;
    for (int step = 0; step < steps; ++step, out += StepBytes(pack.format)) {
      const Rectangle r = Clip(source, row, static_cast<int64_t>(step) * kStepInputs);
      StoreTile(pack.format, ReadTile(pack.format, source, r), m, out);
      if (pack.format == DeviceFormat::kInt4) StoreInt4Scales(source, r, m, out);
    }
  }
}

}  // namespace

DeviceFormat NativeDeviceFormat(const MatrixView& stored) {
  const bool scale_known = stored.scale_dtype == DType::kF32 || stored.scale_dtype == DType::kBF16;
  if (stored.format == MatrixFormat::kFp8Block && stored.block_rows % kTileOutputs == 0 &&
      stored.block_cols % kStepInputs == 0 && scale_known)
    return DeviceFormat::kFp8;
  if (stored.format == MatrixFormat::kInt4Group && stored.block_rows == 1 &&
      stored.block_cols == kInt4GroupInputs && stored.scale_dtype == DType::kBF16)
    return DeviceFormat::kInt4;
  return DeviceFormat::kBf16;
}

int64_t DevicePack::panels() const { return PanelCount(static_cast<int>(first.rows), gated()); }

size_t DevicePack::panel_bytes() const {
  return static_cast<size_t>(StepCount(static_cast<int>(first.cols))) *
         static_cast<size_t>(StepBytes(format));
}

size_t DevicePack::bytes() const {
  return DeviceBytes(format, static_cast<int>(first.rows), static_cast<int>(first.cols), gated());
}

void PackPanels(const DevicePack& pack, const PanelRange& panels, absl::Span<std::byte> out) {
  NUMOE_CHECK(0 <= panels.first && panels.first <= panels.last && panels.last <= pack.panels());
  NUMOE_CHECK_EQ(out.size(), static_cast<size_t>(panels.last - panels.first) * pack.panel_bytes());
  for (int m = 0; m < 2; ++m) {
    const MatrixView& source = m == 1 && pack.gated() ? pack.second : pack.first;
    NUMOE_CHECK(pack.format == DeviceFormat::kBf16 || pack.format == NativeDeviceFormat(source));
    PackTiles(pack, source, m, panels, out.data());
  }
}

void PackTail(const DevicePack& pack, absl::Span<std::byte> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  NUMOE_CHECK_EQ(out.size(), pack.bytes() - static_cast<size_t>(pack.panels()) * pack.panel_bytes());
  if (pack.format != DeviceFormat::kFp8) return;
  const int64_t steps = StepCount(static_cast<int>(pack.first.cols));
  for (int64_t at = 0; at < pack.panels() * steps; ++at) {
    const int64_t panel = at / steps, col = at % steps * kStepInputs;
    for (int m = 0; m < 2; ++m) {
      const int64_t row = pack.gated() ? panel * kTileOutputs : panel * kPanelOutputs + m * kTileOutputs;
      const MatrixView& source = m == 1 && pack.gated() ? pack.second : pack.first;
      Store(out.data() + (at * 2 + m) * 4, Fp8Scale(source, Clip(source, row, col)));
    }
  }
}

void PackDevice(const DevicePack& pack, absl::Span<std::byte> out) {
  NUMOE_CHECK_EQ(out.size(), pack.bytes());
  const size_t codes = static_cast<size_t>(pack.panels()) * pack.panel_bytes();
  PackPanels(pack, {0, pack.panels()}, out.subspan(0, codes));
  PackTail(pack, out.subspan(codes));
}

void PackDeviceMatrix(DeviceFormat format, const MatrixView& source, absl::Span<std::byte> out) {
  PackDevice({.format = format, .first = source}, out);
}

void PackDeviceGated(DeviceFormat format, const MatrixView& gate, const MatrixView& up,
                     absl::Span<std::byte> out) {
  NUMOE_CHECK(gate.rows == up.rows && gate.cols == up.cols);
  PackDevice({.format = format, .first = gate, .second = up}, out);
}

MatrixView ValuesView(absl::Span<const float> values, int rows, int cols) {
  NUMOE_CHECK_EQ(values.size(), static_cast<size_t>(rows) * static_cast<size_t>(cols));
  return {.format = MatrixFormat::kF32,
          .rows = rows,
          .cols = cols,
          .data = {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)}};
}

float UnpackDeviceWeight(const DeviceMatrix& matrix, int row, int col, int half) {
  const int outputs = matrix.gated ? kTileOutputs : kPanelOutputs;
  const int panel = row / outputs, m = matrix.gated ? half : row % kPanelOutputs / kTileOutputs;
  const int tile_row = row % kTileOutputs, step = col / kStepInputs, s = col % kStepInputs / 16, c = col % 16;
  const int lane = tile_row % 8 * 4 + c % 8 / 2, j = tile_row / 8 + c / 8 * 2, second = c % 2;
  const int64_t at = static_cast<int64_t>(panel) * StepCount(matrix.cols) + step;
  const std::byte* bytes = matrix.data + at * StepBytes(matrix.format);
  const auto load = [](const std::byte* from) {
    uint16_t bits;
    std::memcpy(&bits, from, sizeof bits);
    return bits;
  };
  switch (matrix.format) {
    case DeviceFormat::kBf16:
      return DecodeBf16(load(bytes + Bf16Offset(m, s, lane, j) + second * 2));
    case DeviceFormat::kFp8: {
      const auto code = std::to_integer<uint8_t>(bytes[Fp8Offset(m, s, lane, j) + second]);
      float scale;
      const int panels = PanelCount(matrix.rows, matrix.gated);
      std::memcpy(&scale, matrix.data + CodeBytes(matrix.format, panels, matrix.cols) + (at * 2 + m) * 4,
                  sizeof scale);
      return DecodeFp8(code) * scale;
    }
    case DeviceFormat::kInt4: {
      const unsigned half_word = load(bytes + Int4Offset(m, s, lane) + second * 2);
      const int code = static_cast<int>(half_word >> (4 * j) & 15u) - 8;
      return static_cast<float>(code) * DecodeBf16(load(bytes + Int4ScaleByte(m, tile_row, s / 2)));
    }
  }
  NUMOE_CHECK(false) << "unknown DeviceFormat";
  return 0;
}

}  // namespace numoe::execution::cuda
