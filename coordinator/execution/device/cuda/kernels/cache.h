// The paged KV cache on the device: its layout, and the kernels that write and gather its rows.
//
// Its blocks have the same bytes as those of the CPU device's cache
// (coordinator/execution/device/cpu/cache_memory.h), so that measurements of quality hold for both. A layer
// consists of planes: one for the keys of each head, then one for the values of each head; MLA has a single
// plane (latent, then rotated key), and its values are the first channels of the keys.
//
// A plane is a sequence of blocks. A block holds 16 tokens, and a sequence's table lists its blocks. A block
// has the rows of its slots 0 to 15, then exponents, then padding to a multiple of 64 bytes. In BF16 a row is
// `width` values of 2 bytes, and there are no exponents. In FP8 a row is `coded` values of 1 byte (E4M3),
// then the other width - coded values as BF16 (MLA's rotated key). The exponents are [slot][group of 128
// coded values], one byte each, which stands for a power of two. common/kernels/cache_row.h defines the value
// of a code and an exponent.
//
//                 MLA 512+64, BF16    MLA, FP8    GQA 128, BF16    GQA 128, FP8
//   row bytes               1,152         640              256             128
//   block bytes            18,432      10,304            4,096           2,112 (per plane)
//
// A block of one head is contiguous and 64-byte aligned: attention reads it in 16-byte pieces, and 16 rows
// are an mma tile. All pointers are device pointers; work is enqueued on the stream; the caller CHECKs the
// sizes of arguments.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/step_tables.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kCacheBlockTokens = 16;

/// The layout of one head's keys, or of its values, in a block.
struct CacheForm {
  int width = 0;        // values per row
  int coded = 0;        // the first `coded` values are FP8 codes; 0 if all are BF16
  int groups = 0;       // exponents per row
  int row_bytes = 0;    // a multiple of 16
  int block_bytes = 0;  // a multiple of 64
};

/// With `fp8`, the last `plain_width` values stay BF16. REQUIRES: width and plain_width are multiples of 16.
CacheForm MakeCacheForm(bool fp8, int width, int plain_width);

/// One layer's cache.
struct CacheLayer {
  std::byte* base = nullptr;
  int blocks = 0;
  int heads = 0;     // cache heads; 1 for MLA
  CacheForm keys;    // the layer begins with one plane of keys per head,
  CacheForm values;  // then one plane of values per head; width 0 if values are a part of the keys
};

int64_t CacheLayerBytes(const CacheLayer& layer);

/// Stores each row of the step in its sequence's block. Rows whose position is -1 are skipped.
template <typename T>  // float or Bf16
struct WriteKvArgs {
  CacheLayer cache;
  StepTables tables;          // positions, sequences and block_tables are used
  const T* source = nullptr;  // [rows, stride]: keys [heads, width], then values [heads, width]
  int stride = 0;             // values from one row to the next; rows are 16-byte aligned
  int rows = 0;               // of the bucket
};
void LaunchWriteKv(const WriteKvArgs<float>& args, Stream stream);
void LaunchWriteKv(const WriteKvArgs<Bf16>& args, Stream stream);

/// All operations of MLA from kv_a_proj's output to the cache: RMSNorm of the latent, rotation of the shared
/// key, coding (https://arxiv.org/abs/2405.04434). Computed in fp32 up to the store.
struct WriteLatentArgs {
  CacheLayer cache;  // 1 head of keys, no values
  StepTables tables;
  const Bf16* compressed = nullptr;  // [rows, stride]: latent, then the key to rotate
  int stride = 0;
  int rows = 0;
  int latent = 0;                              // channels that are normalised; the others are rotated
  const float* norm_weight = nullptr;          // [latent]
  float epsilon = 0;                           // added to the mean square
  const float* inverse_frequencies = nullptr;  // [(width - latent) / 2] radians per position
  float multiplier = 1;                        // of cos and sin
  bool interleaved = true;                     // rotates pairs (2i, 2i + 1); if false, (i, i + half)
};
void LaunchWriteLatent(const WriteLatentArgs& args, Stream stream);

/// Copies positions [begin, end) of one sequence from one plane to BF16 rows, which prefill expands.
struct GatherRowsArgs {
  CacheLayer cache;
  const int32_t* block_table = nullptr;  // of the sequence
  int head = 0;
  int begin = 0;
  int end = 0;
  Bf16* out = nullptr;  // [end - begin, keys.width], 16-byte aligned
};
void LaunchGatherKeys(const GatherRowsArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
