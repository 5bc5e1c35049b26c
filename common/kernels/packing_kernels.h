// The loops in which packing spends its time, as one table for each instruction set.
//
// Internal to common/kernels. Packing runs at the same time as reads from disk or page cache, and must take
// less time than these: a core writes some 10 GB/s into fresh pages. Every table gives the same bytes,
// because its sources are compiled without fusing multiplications and additions; so a packed shard does not
// depend on the machine that made it. Transpositions write without the caches, because a packed weight is not
// read soon: a fence must follow before another thread reads them. Any thread; no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe {

struct PackingKernels {
  /// Transposes `words` words (a multiple of 4) of 16 rows, `row_bytes` apart, to `words` lines of 64 bytes
  /// with 16 outputs.
  void (*transpose_half)(const std::byte* first_row, size_t row_bytes, int words, std::byte* out);
  /// Transposes 64 nibbles, in the order of the inputs, of each of kPanelRows rows to the 16 lines of an int4
  /// step.
  void (*pack_nibbles)(const std::byte* first_row, size_t row_bytes, std::byte* out);
  /// Computes codes and scales of a row's groups of 32 weights (layout.h's kGroup). Returns the first group
  /// with a weight that is not finite, for which nothing is written; -1 if there is none.
  int (*quantise_int8)(const float* weights, int groups, int8_t* codes, float* scales);
  /// Does the same with codes of 4 bits and scales that BF16 represents exactly.
  int (*quantise_int4)(const float* weights, int groups, int8_t* codes, float* scales);
};

/// Returns the table of the best instruction set of this CPU (cpu_features.h).
const PackingKernels& BestPackingKernels();

}  // namespace numoe
