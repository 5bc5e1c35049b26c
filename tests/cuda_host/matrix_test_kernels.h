// One-warp kernels around the matrix and conversion words, for matrix_test.cc.
//
// Every array is indexed by lane first; what a register holds is for the test to say, from the PTX manual.
#pragma once

#include <cstdint>

namespace numoe::execution::cuda {

/// rows: 32 rows of 8 16-bit values. out [lane][14]: LdMatrix of 1, 2 and 4 matrices, then LdMatrixTrans of
/// them.
void LaunchLoads(const uint16_t* rows, uint32_t* out);
/// Each lane takes rows 4 bytes off: must stop.
void LaunchMisalignedLoad(const uint16_t* rows, uint32_t* out);
/// a [lane][4], b [lane][2], c [lane][4] in and out.
void LaunchMmaBf16(const uint32_t* a, const uint32_t* b, float* c);
/// codes: 256 E4M3 codes. values [256]: each code's fp32; bf16 [256]: its BF16 bits.
void LaunchFp8(const uint8_t* codes, float* values, uint16_t* bf16);
/// out[i] = a[i] * b[i] + c[i] on 32 BF16 pairs.
void LaunchFmaBf16(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* out);

}  // namespace numoe::execution::cuda
