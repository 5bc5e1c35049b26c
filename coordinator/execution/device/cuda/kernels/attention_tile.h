// Tiles of BF16 rows in shared memory, and their fragments for mma.m16n8k16, shared by all attention kernels.
//
// A tile row has `kChunks` pieces of 16 bytes, which are permuted (swizzled) so that the eight rows that one
// phase of ldmatrix reads, at the same column, are in eight different groups of four banks: no conflicts,
// without padding. Fragment layouts: PTX ISA, "Matrix fragments for mma.m16n8k16". With g = lane / 4 and t =
// lane % 4, registers 0 and 1 of C (and S) are row g, columns 2t and 2t + 1; registers 2 and 3 are row g + 8.
// Device code for kernels only.
#pragma once

#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;

template <int kChunks>
struct Tile {
  static_assert(kChunks % 2 == 0,
                "rows need at least 32 bytes, so that eight rows can be in different banks");

  // Returns an index of 16-byte pieces. Rows whose length is a multiple of 128 bytes begin in the same bank
  // and need eight permutations; rows of other lengths begin in different banks and need fewer.
  static __device__ __forceinline__ int At(int row, int chunk) {
    if constexpr (kChunks % 8 == 0) return row * kChunks + (chunk ^ (row & 7));
    if constexpr (kChunks % 8 == 4) return row * kChunks + (chunk ^ ((row >> 1) & 3));
    return row * kChunks + (chunk ^ ((row >> 2) & 1));
  }
  static __device__ __forceinline__ uint4* Place(uint4* tile, int row, int chunk) {
    return tile + At(row, chunk);
  }

  /// Loads rows first..+15 of columns 16 * step..+15 as the left operand.
  static __device__ __forceinline__ void LoadLeft(uint32_t (&a)[4], const uint4* tile, int first, int step,
                                                  int lane) {
    LdMatrix(a, tile + At(first + lane % 16, step * 2 + lane / 16));
  }
  /// Loads the same rows as the right operand's columns (products with each row): b[0], b[1] for rows
  /// first..+7, b[2], b[3] for the next eight.
  static __device__ __forceinline__ void LoadRight(uint32_t (&b)[4], const uint4* tile, int first, int step,
                                                   int lane) {
    LdMatrix(b, tile + At(first + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
  }
  /// Loads rows first..+15 as the right operand's depth (sums of rows): b[0], b[1] for columns 16 * step..+7,
  /// b[2], b[3] for the next eight.
  static __device__ __forceinline__ void LoadDeep(uint32_t (&b)[4], const uint4* tile, int first, int step,
                                                  int lane) {
    LdMatrixTrans(b, tile + At(first + lane % 16, step * 2 + lane / 16));
  }
  /// Stores a pair of values at columns `column` (which is even) and `column` + 1.
  static __device__ __forceinline__ void StorePair(uint4* tile, int row, int column, uint32_t pair) {
    reinterpret_cast<uint32_t*>(tile + At(row, column / 8))[column % 8 / 2] = pair;
  }
};

/// Returns the maximum over the four lanes that share a fragment's row.
__device__ __forceinline__ float RowMaximum(float value) {
  value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
  return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}
__device__ __forceinline__ float RowSum(float value) {
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}

}  // namespace numoe::execution::cuda
