// The sources of attention's keys and values, one tile of rows at a time: blocks of the paged cache, BF16 or
// FP8, or rows that were expanded beforehand.
//
// A source issues the copies of rows [first, first + kRows) of its positions to shared memory, and if they do
// not arrive there as a swizzled BF16 tile, converts them to one. Rows `end` and later arrive as zeros: they
// get weights of zero, but zero times the old contents would be NaN if these were NaN. Copies belong to the
// calling thread's current group. Device code for kernels only; all threads of a team call together.
#pragma once

#include "coordinator/execution/device/cuda/kernels/attention_tile.h"
#include "coordinator/execution/device/cuda/kernels/cache_codes.h"

namespace numoe::execution::cuda {

/// The threads that copy together: there are `size` threads, and the calling one has number `rank`.
struct Team {
  int rank;
  int size;
};

/// One plane of the cache (cache.h); with kFp8 all of its values are FP8 codes.
template <int kWidth, bool kFp8>
struct PagedRows {
  static constexpr int kChunks = kWidth / 8;  // 16-byte pieces of a BF16 row
  static constexpr int kGroups = cache_row::Groups(kWidth);
  static constexpr int kBlockBytes =
      kFp8 ? (kCacheBlockTokens * (kWidth + kGroups) + 63) / 64 * 64 : kCacheBlockTokens * kWidth * 2;
  static constexpr bool kWidens = kFp8;
  using Rows = Tile<kChunks>;

  template <int kRows>
  static constexpr int LandingBytes() {
    return kFp8 ? kRows / kCacheBlockTokens * kBlockBytes : 0;
  }

  const std::byte* plane;
  const int32_t* table;  // block table of the sequence

  /// `first` is a multiple of 16.
  template <int kRows>
  __device__ __forceinline__ void Issue(uint4* tile, std::byte* landing, int first, int end,
                                        const Team& team) const {
#pragma unroll
    for (int b = 0; b < kRows / kCacheBlockTokens; ++b) {
      const int begin = first + b * kCacheBlockTokens;
      const int rows = end - begin;
      const int block = rows > 0 ? table[begin / kCacheBlockTokens] : 0;
      const std::byte* const from = plane + static_cast<int64_t>(block) * kBlockBytes;
      constexpr int kRowChunks = kFp8 ? kWidth / 16 : kChunks;
#pragma unroll 4
      for (int i = team.rank; i < kBlockBytes / 16; i += team.size) {
        const int row = i / kRowChunks;
        // Exponents follow the rows and are copied if the block has any valid row.
        const bool valid = row < kCacheBlockTokens ? row < rows : rows > 0;
        uint4* const to = kFp8 ? reinterpret_cast<uint4*>(landing + b * kBlockBytes) + i
                               : Rows::Place(tile, b * kCacheBlockTokens + row, i % kRowChunks);
        CpAsync<16>(to, valid ? from + i * 16 : plane, valid ? 16 : 0);
      }
    }
  }

  /// REQUIRES: the copies have arrived for the whole team.
  template <int kRows>
  static __device__ __forceinline__ void Widen(uint4* tile, const std::byte* landing, const Team& team) {
    for (int i = team.rank; i < kRows * kChunks; i += team.size) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      const std::byte* const block = landing + row / kCacheBlockTokens * kBlockBytes;
      const int slot = row % kCacheBlockTokens;
      const uint32_t exponent = reinterpret_cast<const uint8_t*>(
          block + kCacheBlockTokens * kWidth)[slot * kGroups + chunk * 8 / cache_row::kGroup];
      const uint2 codes = *reinterpret_cast<const uint2*>(block + slot * kWidth + chunk * 8);
      const uint2 low = WidenQuad(codes.x, exponent);
      const uint2 high = WidenQuad(codes.y, exponent);
      *Rows::Place(tile, row, chunk) = make_uint4(low.x, low.y, high.x, high.y);
    }
  }
};

/// Rows in plain memory: kOwn values of one head, then kShared values that all heads share.
template <int kOwn, int kShared>
struct ExpandedRows {
  static constexpr int kChunks = (kOwn + kShared) / 8;
  static constexpr bool kWidens = false;
  using Rows = Tile<kChunks>;

  template <int kRows>
  static constexpr int LandingBytes() {
    return 0;
  }

  const Bf16* own;  // address of position 0, which may be before the beginning of the memory
  int64_t own_stride;
  const Bf16* shared;
  int64_t shared_stride;

  template <int kRows>
  __device__ __forceinline__ void Issue(uint4* tile, std::byte*, int first, int end, const Team& team) const {
    for (int i = team.rank; i < kRows * kChunks; i += team.size) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      const bool valid = first + row < end;
      const int64_t position = valid ? first + row : first;
      const Bf16* const from = chunk < kOwn / 8 ? own + position * own_stride + chunk * 8
                                                : shared + position * shared_stride + (chunk - kOwn / 8) * 8;
      CpAsync<16>(Rows::Place(tile, row, chunk), from, valid ? 16 : 0);
    }
  }
  template <int kRows>
  static __device__ __forceinline__ void Widen(uint4*, const std::byte*, const Team&) {}
};

}  // namespace numoe::execution::cuda
