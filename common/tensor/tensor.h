// The bytes of a checkpoint: element types, and read-only views of row-major tensors.
//
// A TensorView owns nothing: it points into a mapped file or a buffer that outlives it. Its data may be
// unaligned (safetensors does not promise alignment): read elements with memcpy, never by casting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace numoe {

enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64
};

/// Returns the bytes of an element.
size_t DTypeBytes(DType dtype);
/// Returns the safetensors spelling ("BF16", "F8_E4M3", ...).
std::string_view DTypeName(DType dtype);
/// The inverse of DTypeName; nullopt for a spelling that this engine does not read.
std::optional<DType> ParseDType(std::string_view name);

using Shape = std::vector<int64_t>;
/// Returns "[7168, 2048]".
std::string ShapeToString(const Shape& shape);

struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;                       // row-major; rank 0 is a scalar
  absl::Span<const std::byte> data;  // exactly ElementCount() * DTypeBytes(dtype) bytes

  int64_t ElementCount() const;
};

}  // namespace numoe
