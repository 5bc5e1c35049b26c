// Sorts a step's (token, expert) pairs by the experts that live on this device, and adds up what they
// computed.
//
// Pair p = token * k + j is token's j-th selected expert. LaunchPermute orders the pairs whose expert has a
// slot by slot, then by p (a counting sort: deterministic), cuts each slot's run into pieces of work of at
// most `piece_rows` rows, and says what is left for the workers. Which pairs there are is read on the device,
// so the launch is the same for every step of a bucket. Up to 1024 pairs are one block and one launch, more
// are three. LaunchCombine adds each token's outputs in ascending j. Bound by latency at few tokens and by
// the outputs' bytes at many. Device memory throughout; nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/dense_tiles.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kSlotsMax = 512;         // experts of one layer on the device
inline constexpr int kPermuteThreads = 1024;  // pairs a block ranks

struct PermuteArgs {
  const int32_t* experts = nullptr;  // [rows, k] selected by the gate; -1 in rows of padding
  const int32_t* slots = nullptr;    // [experts of the layer] where an expert lives, -1: with the workers
  int rows = 0;                      // of the bucket
  int k = 0;
  int slot_count = 0;             // <= kSlotsMax
  int piece_rows = 0;             // rows of a piece of work: GemmPlan::tokens()
  int32_t* counts = nullptr;      // scratch of PermuteScratchInts()
  int32_t* tokens = nullptr;      // out [rows * k] token of each sorted pair
  int32_t* places = nullptr;      // out [rows, k] where a pair stands in the order; -1: not on this device
  int32_t* left = nullptr;        // out [rows, k] experts, those of this device replaced by -1
  GemmWork* work = nullptr;       // out [PermuteWorkMax()]
  int32_t* work_count = nullptr;  // out
};

/// Pieces of work that `pairs` pairs on `slots` slots can make.
constexpr int PermuteWorkMax(int pairs, int slots, int piece_rows) {
  return pairs / piece_rows + (pairs < slots ? pairs : slots);
}
constexpr int PermuteBlocks(int pairs) { return (pairs + kPermuteThreads - 1) / kPermuteThreads; }
/// None for what one block sorts.
constexpr size_t PermuteScratchInts(int pairs, int slots) {
  const int blocks = PermuteBlocks(pairs);
  return blocks > 1 ? static_cast<size_t>(blocks) * static_cast<size_t>(slots) : 0;
}
void LaunchPermute(const PermuteArgs& args, Stream stream);

struct CombineArgs {
  const Bf16* outputs = nullptr;    // [sorted pairs, hidden] of the experts
  const int32_t* places = nullptr;  // LaunchPermute's
  const float* weights = nullptr;   // [rows, k] of the gate
  int rows = 0;
  int k = 0;
  int hidden = 0;             // a multiple of 8
  float* residual = nullptr;  // [rows, hidden] += sum over j of weight * output
};
void LaunchCombine(const CombineArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
