// Random stored matrices for the kernels' tests, in the format from which each weight format is packed, and
// their packing.
//
// Values have a normal distribution. raw_int4 uses all 16 codes and fp8 all finite codes, with scales around
// 0.01. A Stored owns the bytes to which its view refers, and a Packed those of its matrix, so keep them
// while the view or matrix is used. Test-only.
#pragma once

#include <cmath>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/bf16.h"
#include "common/kernels/kernels.h"
#include "gtest/gtest.h"
#include "tests/support/ggml_encode.h"

namespace numoe {

struct alignas(64) Line {
  std::byte bytes[64];
};

inline std::vector<float> RandomFloats(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

inline std::vector<WeightFormat> AllFormats() {
  std::vector<WeightFormat> formats;
  for (size_t i = 0; i < kWeightFormats; ++i) formats.push_back(static_cast<WeightFormat>(i));
  return formats;
}
/// Returns the formats that hold GGUF's blocks as they are stored.
inline std::vector<WeightFormat> GgufFormats() {
  std::vector<WeightFormat> formats;
  for (const WeightFormat format : AllFormats()) {
    if (GgmlTypeOf(format)) formats.push_back(format);
  }
  return formats;
}

// A stored matrix with random content in the format from which a weight format is packed. It may be wider
// than requested.
struct Stored {
  std::vector<std::byte> data;
  std::vector<std::byte> scales;
  MatrixView view;
};

inline Stored RandomStored(WeightFormat format, int rows, int cols, std::mt19937& random) {
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
    for (int i = 0; i < rows * cols / 32; ++i)
      append(s.scales, EncodeBf16(0.01f * (1 + std::fabs(normal(random)))));
  } else if (format == WeightFormat::kFp8) {
    s.view.format = MatrixFormat::kFp8Block;
    s.view.block_rows = s.view.block_cols = 128;
    for (int i = 0; i < rows * cols; ++i) {
      auto code = static_cast<uint8_t>(random());
      if ((code & 0x7f) == 0x7f) code = 0x38;
      append(s.data, code);
    }
    const int blocks = (rows + 127) / 128 * ((cols + 127) / 128);
    for (int i = 0; i < blocks; ++i) append(s.scales, 0.01f + 0.01f * std::fabs(normal(random)));
  } else if (const std::optional<GgmlType> ggml = GgmlTypeOf(format)) {
    s.view.format = MatrixFormat::kGgml;
    s.view.ggml = *ggml;
    const int block = TraitsOf(*ggml).block_values;
    s.view.cols = (cols + block - 1) / block * block;  // rows consist of whole blocks
    s.data = EncodeGgml(*ggml, RandomFloats(static_cast<size_t>(rows * s.view.cols), random));
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

struct Rectangle {
  int row_begin, rows, col_begin, cols;
};

inline absl::StatusOr<Packed> PackRectangle(WeightFormat format, const MatrixView& view, const Rectangle& r) {
  Packed p;
  const size_t bytes = PackedBytes(format, r.rows, r.cols);
  p.memory.resize(bytes / sizeof(Line));
  auto* data = reinterpret_cast<std::byte*>(p.memory.data());
  const absl::Status status =
      PackMatrix(format, view, r.row_begin, r.rows, r.col_begin, r.cols, absl::MakeSpan(data, bytes));
  if (!status.ok()) return status;
  p.matrix = {.format = format, .rows = r.rows, .cols = r.cols, .data = data};
  return p;
}

inline Packed Pack(WeightFormat format, const MatrixView& view) {
  absl::StatusOr<Packed> p =
      PackRectangle(format, view, {0, static_cast<int>(view.rows), 0, static_cast<int>(view.cols)});
  EXPECT_TRUE(p.ok()) << p.status();
  return *std::move(p);
}

/// Returns a random matrix of exactly these sizes, packed.
inline Packed RandomPacked(WeightFormat format, int rows, int cols, std::mt19937& random) {
  const Stored stored = RandomStored(format, rows, cols, random);
  absl::StatusOr<Packed> p = PackRectangle(format, stored.view, {0, rows, 0, cols});
  EXPECT_TRUE(p.ok()) << p.status();
  return *std::move(p);
}

/// Returns the error message of a matrix that cannot be packed.
inline std::string Refusal(WeightFormat format, const MatrixView& view, const Rectangle& r) {
  const absl::StatusOr<Packed> packed = PackRectangle(format, view, r);
  if (packed.ok()) return "packed";
  EXPECT_EQ(packed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(packed.status().message());
}

}  // namespace numoe
