// Kernels of one warp that call the matrix and conversion functions, for matrix_test.cc.
//
// Every array is indexed by lane first; the test defines the contents of registers, from the PTX manual.
#pragma once

#include <cstdint>

namespace numoe::execution::cuda {

/// `rows` has 32 rows of 8 16-bit values. `out` is [lane][14]: LdMatrix of 1, 2 and 4 matrices, then
/// LdMatrixTrans of the same.
void LaunchLoads(const uint16_t* rows, uint32_t* out);
/// Each lane passes rows that are misaligned by 4 bytes: must stop.
void LaunchMisalignedLoad(const uint16_t* rows, uint32_t* out);
/// `a` is [lane][4], `b` is [lane][2]; `c` is [lane][4], input and output.
void LaunchMmaBf16(const uint32_t* a, const uint32_t* b, float* c);
/// `codes` has all 256 E4M3 codes. values [256] receives each code's value in fp32, bf16 [256] its BF16 bits.
void LaunchFp8(const uint8_t* codes, float* values, uint16_t* bf16);
/// out[i] = a[i] * b[i] + c[i] on 32 BF16 pairs.
void LaunchFmaBf16(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* out);

}  // namespace numoe::execution::cuda
