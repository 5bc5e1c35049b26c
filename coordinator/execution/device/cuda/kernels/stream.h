// The types that every kernel header uses: the stream handle and the element type of activations.
//
// Plain C++ without the CUDA toolkit. Stream is the same type as cudaStream_t (a pointer to the driver's
// CUstream_st): work on one stream runs in the order in which it was enqueued. In builds without a device,
// work on the null stream runs before the call returns.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace numoe::execution::cuda {

using Stream = CUstream_st*;

/// The upper half of an fp32 (common/formats/bf16.h), the type of activations and BF16 weights. Converted by
/// ToFloat and ToBf16 of words.h; eight at a time are loaded and stored as a uint4.
struct Bf16 {
  uint16_t bits;
};
static_assert(sizeof(Bf16) == 2);

}  // namespace numoe::execution::cuda
