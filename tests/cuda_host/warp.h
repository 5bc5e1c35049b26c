// Warp collectives on the host: shuffles, votes and reductions over the lanes of a mask.
//
// Values are passed as 64 bits. A shuffle from a lane that is not in the mask is undefined in CUDA and
// returns all ones here (NaN). None of these operations orders memory; only __syncwarp does (PTX ISA,
// "shfl.sync", "vote.sync").
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/cuda_host/machine.h"

namespace numoe::cuda_host {

enum class Shuffle { kIndex, kXor, kDown, kUp };
enum class Reduction { kAdd, kMinSigned, kMaxSigned, kMin, kMax, kAnd, kOr, kXor, kBallot };

/// Returns the value of the lane that `how` and `operand` select within segments of `width` lanes.
uint64_t ShuffleBits(Shuffle how, unsigned mask, uint64_t bits, int operand, int width, Place place);
/// Returns the reduction over the lanes; for kBallot, the mask of lanes with a non-zero value.
unsigned ReduceBits(Reduction how, const char* name, unsigned mask, unsigned value, Place place);
/// Returns the mask of lanes that have the same value as the caller.
unsigned MatchBits(unsigned mask, uint64_t bits, Place place);

template <class T>
T ShuffleValue(Shuffle how, unsigned mask, T value, int operand, int width, Place place) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = ShuffleBits(how, mask, bits, operand, width, place);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace numoe::cuda_host
