// What every kernel header shares: the stream handle and the element type of activations.
//
// Plain C++ without the CUDA toolkit. Stream is a twin of cudaStream_t (a pointer to the driver's
// CUstream_st): work enqueued on one stream runs in order. The null stream, in builds without a device,
// means: run before returning.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace numoe::execution::cuda {

using Stream = CUstream_st*;

/// The upper half of an fp32, as activations and BF16 weights are stored (common/formats/bf16.h). Converted
/// by ToFloat and ToBf16 of words.h, eight at a time through uint4.
struct Bf16 {
  uint16_t bits;
};
static_assert(sizeof(Bf16) == 2);

}  // namespace numoe::execution::cuda
