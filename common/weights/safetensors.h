// The header of one safetensors file, parsed and checked completely before any tensor is touched.
//
// Format (https://github.com/huggingface/safetensors): u64 little-endian header length N, N bytes of JSON,
// data. Checked: N within the file and below 100 MB, the JSON (duplicate keys refused), dtypes, sizes equal
// to shape times element, offsets contiguous from 0 without holes or overlaps, and the end of the last tensor
// equal to the end of the file. Pure: works on bytes, so that it can be fuzzed. Errors name the file, the
// tensor, what was found and what was expected.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace numoe {

struct SafetensorsHeader {
  std::map<std::string, TensorView, std::less<>> tensors;  // views into the file's bytes
  absl::Span<const std::byte> json;                        // the header text, in `head`
};

/// `head` holds at least the length and the text (or all of a shorter file), to be read; `file` is where the
/// whole file lies, of which no byte is read.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const std::byte> head,
                                                         absl::Span<const std::byte> file,
                                                         std::string_view name);
/// Of a file in memory.
inline absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const std::byte> file,
                                                                std::string_view name) {
  return ParseSafetensorsHeader(file, file, name);
}
/// Bytes of head that ParseSafetensorsHeader wants, given the file's first (up to) 8.
size_t SafetensorsHeadBytes(absl::Span<const std::byte> length_bytes);

}  // namespace numoe
