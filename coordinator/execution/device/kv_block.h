// KvBlock: how many tokens a block of the KV cache holds wherever the coordinator serves, plans or measures.
//
// A block is what the scheduler hands out and what a sequence's table names. The GPU's kernels are compiled
// for this one size (kernels/cache.h, which cuda_store.cc ties to it): 16 rows are an mma tile. The CPU's
// device takes any size, which tests use to cut sequences into smaller blocks. Constants and pure functions.
#pragma once

#include <cstdint>

namespace numoe::execution {

inline constexpr int kKvBlockTokens = 16;

/// Blocks that `tokens` tokens of one sequence take.
constexpr int64_t KvBlocksFor(int64_t tokens) { return (tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

}  // namespace numoe::execution
