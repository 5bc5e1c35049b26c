// KvBlock: the number of tokens in a block of the KV cache wherever the coordinator serves, plans or
// measures.
//
// A block is the scheduler's unit of allocation, and block tables list blocks. The GPU's kernels are compiled
// for this one size (kernels/cache.h; cuda_store.cc checks that the two agree): 16 rows are an mma tile. The
// CPU device accepts any size, which tests use to divide sequences into smaller blocks. Constants and pure
// functions.
#pragma once

#include <cstdint>

namespace numoe::execution {

inline constexpr int kKvBlockTokens = 16;

/// Returns the number of blocks that `tokens` tokens of one sequence need.
constexpr int64_t KvBlocksFor(int64_t tokens) { return (tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

}  // namespace numoe::execution
