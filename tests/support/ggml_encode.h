// Encoders of GGUF's block formats, for tests: plain rounding, no search for better scales.
//
// The layouts are written here a second time, from ggml's headers, so that encoding and decoding
// (common/formats/ggml_blocks.h) check each other; ggml_blocks_test.cc holds each format to its error. Pure
// functions.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "common/formats/ggml_blocks.h"

namespace numoe {

/// REQUIRES: values.size() is a multiple of the block's values; values are finite.
std::vector<std::byte> EncodeGgml(GgmlType type, absl::Span<const float> values);

}  // namespace numoe
