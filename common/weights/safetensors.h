// The header of a safetensors file, parsed and checked completely before any tensor is read.
//
// Format (https://github.com/huggingface/safetensors): u64 little-endian header length N, N bytes of JSON,
// data. It checks that N is within the file and below 100 MB, the JSON (duplicate keys are refused), dtypes,
// that sizes are shape times element, that offsets are contiguous from 0 without holes or overlaps, and that
// the last tensor ends at the end of the file. A pure function of bytes, so that it can be fuzzed. Errors
// name the file, the tensor, what was found and what was expected.
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

/// `head` contains at least the length and the text (or all of a shorter file), which are read. `file` is
/// where the whole file is mapped; none of its bytes is read.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const std::byte> head,
                                                         absl::Span<const std::byte> file,
                                                         std::string_view name);
/// Parses the header of a file in memory.
inline absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const std::byte> file,
                                                                std::string_view name) {
  return ParseSafetensorsHeader(file, file, name);
}
/// Returns the bytes of head that ParseSafetensorsHeader needs, from the file's first (up to) 8 bytes.
size_t SafetensorsHeadBytes(absl::Span<const std::byte> length_bytes);

}  // namespace numoe
