// compressed-tensors "pack-quantized" INT4: eight nibbles to a little-endian 32-bit word, lowest bits first.
//
// Element k of a row is nibble k % 8 of word k / 8. Its value is (nibble - 8), and its weight is that times
// the scale of its group of 32. In bytes: byte b contains element 2b in its low half and 2b + 1 in its high
// half. Source: https://github.com/vllm-project/compressed-tensors, strategy "group", symmetric.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/check.h"

namespace numoe {

inline constexpr int kInt4GroupSize = 32;

/// Returns the value -8..7 of element `k` of a packed row.
inline int DecodeInt4(const std::byte* row, int64_t k) {
  NUMOE_DCHECK_GE(k, 0);
  const unsigned byte = std::to_integer<unsigned>(row[k / 2]);
  return static_cast<int>((k % 2 == 0 ? byte : byte >> 4) & 15u) - 8;
}

/// Stores `value` (-8..7) as element `k` of a packed row.
inline void EncodeInt4(std::byte* row, int64_t k, int value) {
  NUMOE_DCHECK_GE(k, 0);
  NUMOE_DCHECK(-8 <= value && value <= 7) << value;
  const auto nibble = static_cast<unsigned>(value + 8) & 15u;
  const unsigned byte = std::to_integer<unsigned>(row[k / 2]);
  row[k / 2] = static_cast<std::byte>(k % 2 == 0 ? (byte & 0xf0u) | nibble : (byte & 0x0fu) | (nibble << 4));
}

}  // namespace numoe
