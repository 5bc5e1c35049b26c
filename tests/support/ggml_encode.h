// Encoders of GGUF's block formats, for tests: simple rounding, without a search for better scales.
//
// The layouts are written here a second time, from ggml's headers, so that encoding and decoding
// (common/formats/ggml_blocks.h) check each other; ggml_blocks_test.cc checks the error of each format. Pure
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
