// Sorts a step's (token, expert) pairs by the experts on this device, and adds up the outputs of these
// experts.
//
// Pair p = token * k + j is the token's j-th selected expert. LaunchPermute sorts the pairs whose expert has
// a slot by slot, then by p (a counting sort, so the order is deterministic), divides each slot's run into
// pieces of work of at most `piece_rows` rows, and lists the experts that are left for the workers. The pairs
// are read on the device, so the launch is the same for every step of a bucket. Up to 1024 pairs need one
// block and one launch, more need three launches. LaunchCombine adds each token's outputs in ascending j.
// Limited by latency for few tokens and by the bytes of the outputs for many. All pointers are device memory;
// nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/dense_tiles.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kSlotsMax = 512;         // experts of one layer on the device
inline constexpr int kPermuteThreads = 1024;  // pairs that a block ranks

struct PermuteArgs {
  const int32_t* experts = nullptr;  // [rows, k] selected by the gate; -1 in padding rows
  const int32_t* slots = nullptr;  // [experts of the layer] slot of each expert, -1 if the workers compute it
  int rows = 0;                    // of the bucket
  int k = 0;
  int slot_count = 0;             // <= kSlotsMax
  int piece_rows = 0;             // the most rows of a piece of work: GemmPlan::tokens()
  int32_t* counts = nullptr;      // scratch of PermuteScratchInts() integers
  int32_t* tokens = nullptr;      // output [rows * k]: token of each sorted pair
  int32_t* places = nullptr;      // output [rows, k]: a pair's place in the order, -1 if not on this device
  int32_t* left = nullptr;        // output [rows, k]: the experts, with those of this device replaced by -1
  GemmWork* work = nullptr;       // output [PermuteWorkMax()]
  int32_t* work_count = nullptr;  // output
};

/// Returns the greatest number of pieces of work that `pairs` pairs on `slots` slots can need.
constexpr int PermuteWorkMax(int pairs, int slots, int piece_rows) {
  return pairs / piece_rows + (pairs < slots ? pairs : slots);
}
constexpr int PermuteBlocks(int pairs) { return (pairs + kPermuteThreads - 1) / kPermuteThreads; }
/// Returns the size of the scratch, which is 0 if one block sorts all pairs.
constexpr size_t PermuteScratchInts(int pairs, int slots) {
  const int blocks = PermuteBlocks(pairs);
  return blocks > 1 ? static_cast<size_t>(blocks) * static_cast<size_t>(slots) : 0;
}
void LaunchPermute(const PermuteArgs& args, Stream stream);

struct CombineArgs {
  const Bf16* outputs = nullptr;    // [sorted pairs, hidden] of the experts
  const int32_t* places = nullptr;  // output of LaunchPermute
  const float* weights = nullptr;   // [rows, k] from the gate
  int rows = 0;
  int k = 0;
  int hidden = 0;             // a multiple of 8
  float* residual = nullptr;  // [rows, hidden] += sum over j of weight * output
};
void LaunchCombine(const CombineArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
