// The loops that packing spends its time in, as one table for each instruction set.
//
// Internal to common/kernels. Packing runs beside reads from disk or page cache, and must take less time than
// they do: a core writes some 10 GB/s into fresh pages. Every table gives the same bytes - its sources
// are compiled without fusing multiplications and additions - so a packed shard does not tell what made it.
// Transpositions write past the caches, as nobody reads a packed weight soon: a fence must follow before
// another thread reads them. Any thread; no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe {

struct PackingKernels {
  /// `words` words (a multiple of 4) of 16 rows, `row_bytes` apart, to as many 64-byte lines of 16 outputs.
  void (*transpose_half)(const std::byte* first_row, size_t row_bytes, int words, std::byte* out);
  /// 64 nibbles in the order of the inputs of each of kPanelRows rows to the 16 lines of an int4 step.
  void (*pack_nibbles)(const std::byte* first_row, size_t row_bytes, std::byte* out);
  /// Codes and scales of a row's groups of 32 weights (layout.h's kGroup): the first group with a weight that
  /// is not finite, and then nothing of it is written, or -1.
  int (*quantise_int8)(const float* weights, int groups, int8_t* codes, float* scales);
  /// The same with codes of 4 bits and scales that BF16 holds.
  int (*quantise_int4)(const float* weights, int groups, int8_t* codes, float* scales);
};

/// Of the best instruction set that this CPU has (cpu_features.h).
const PackingKernels& BestPackingKernels();

}  // namespace numoe
