// The passes of a block over a row of logits: they find the best token, compute histograms of weights, and
// find the token at which a count or a mass is reached.
//
// "Sorted order" means by logit, best first, ties by the lower token first; no row is ever sorted. Weights
// are exp((logit - best) * inverse), as floats with the same bits as in
// coordinator/execution/sampling/logit_row.h (therefore roundings are explicit: nvcc would contract the
// operations), summed as integers in units of 2^-44. All functions must be called by all threads of the block
// together and return the same value to each. Included by sampling.cu only.
#pragma once

#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {

inline constexpr int kSampleThreads = 512;
inline constexpr int kSampleWarps = kSampleThreads / 32;
inline constexpr int kBins = 1024;  // two per thread
inline constexpr int kBinBits = 10;
inline constexpr float kForbidden = -3.402823466e+38f;  // the value of kForbiddenLogit

using Count = unsigned long long;

struct RowView {
  const float* logits;
  int vocab;
  float best;
  float inverse;
};

/// Returns an unsigned integer that has the order of the floats; -0 counts as 0.
__device__ __forceinline__ unsigned SortKey(float logit) {
  const unsigned bits = __float_as_uint(logit + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float LogitOfKey(unsigned key) {
  return __uint_as_float((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
}

/// Returns log2 of the weight, which is at most 0.
__device__ __forceinline__ float Log2Weight(const RowView& row, float logit) {
  return __fmul_rn(__fmul_rn(__fadd_rn(logit, -row.best), row.inverse), 1.44269504f);
}
/// Returns the weight; the same as ExpOfNegative of logit_row.h.
__device__ __forceinline__ float Weight(const RowView& row, float logit) {
  constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23: adding it rounds
  float t = Log2Weight(row, logit);
  t = t < -126.0f ? -126.0f : t;
  const float shifted = __fadd_rn(t, kToInteger);
  const float f = __fadd_rn(t, -__fadd_rn(shifted, -kToInteger));
  float p = __fadd_rn(__fmul_rn(f, 1.54035304e-4f), 1.33335581e-3f);
  p = __fadd_rn(__fmul_rn(p, f), 9.61812911e-3f);
  p = __fadd_rn(__fmul_rn(p, f), 5.55041087e-2f);
  p = __fadd_rn(__fmul_rn(p, f), 2.40226507e-1f);
  p = __fadd_rn(__fmul_rn(p, f), 6.93147181e-1f);
  p = __fadd_rn(__fmul_rn(p, f), 1.0f);
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23));
}
__device__ __forceinline__ Count FixedWeight(float weight) { return static_cast<Count>(weight * 0x1p44f); }

/// Calls body(token, logit) for each token of the row; a thread reads 4 at a time.
template <class Body>
__device__ __forceinline__ void ForEachLogit(const float* logits, int vocab, Body body) {
#pragma unroll 4
  for (int token = static_cast<int>(threadIdx.x) * 4; token < vocab; token += kSampleThreads * 4) {
    const float4 four = *reinterpret_cast<const float4*>(logits + token);  // the stride is a multiple of 4
    body(token, four.x);
    if (token + 1 < vocab) body(token + 1, four.y);
    if (token + 2 < vocab) body(token + 2, four.z);
    if (token + 3 < vocab) body(token + 3, four.w);
  }
}

template <class Combine>
__device__ __forceinline__ Count BlockReduce(Count value, Combine combine) {
  NUMOE_SHARED(Count, parts, [kSampleWarps]);
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value = combine(value, __shfl_xor_sync(~0u, value, lanes));
  __syncthreads();  // the results of an earlier call have been read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int warp = 1; warp < kSampleWarps; ++warp) value = combine(value, parts[warp]);
  return value;
}
__device__ __forceinline__ Count BlockSumOf(Count value) {
  return BlockReduce(value, [](Count a, Count b) { return a + b; });
}
__device__ __forceinline__ Count BlockMaxOf(Count value) {
  return BlockReduce(value, [](Count a, Count b) { return a > b ? a : b; });
}

/// The first token in sorted order. `bad` means that a logit is NaN or infinite.
struct Best {
  float logit;
  int token;
  bool bad;
};
__device__ inline Best FindBest(const float* logits, int vocab) {
  Count top = 0;
  int bad = 0;
  ForEachLogit(logits, vocab, [&](int token, float logit) {
    const Count candidate =
        static_cast<Count>(SortKey(logit)) << 32 | (0xffffffffu - static_cast<unsigned>(token));
    top = candidate > top ? candidate : top;
    bad |= (__float_as_uint(logit) & 0x7f800000u) == 0x7f800000u ? 1 : 0;
  });
  bad = __syncthreads_or(bad);
  top = BlockMaxOf(top);
  return {LogitOfKey(static_cast<unsigned>(top >> 32)),
          static_cast<int>(0xffffffffu - static_cast<unsigned>(top)), bad != 0};
}

/// The tokens and the mass of each bin; bins are in sorted order.
struct Histogram {
  unsigned count[kBins];
  unsigned low[kBins],
      high[kBins];  // halves of the mass, because shared memory has native 32-bit atomics only
};

__device__ __forceinline__ void Clear(Histogram& histogram) {
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kSampleThreads) {
    histogram.count[bin] = histogram.low[bin] = histogram.high[bin] = 0;
  }
  __syncthreads();
}
__device__ __forceinline__ void AddTo(Histogram& histogram, int bin, unsigned tokens, Count mass) {
  atomicAdd(&histogram.count[bin], tokens);
  if (mass == 0) return;
  const unsigned low = static_cast<unsigned>(mass);
  const unsigned before = atomicAdd(&histogram.low[bin], low);
  const unsigned high = static_cast<unsigned>(mass >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) atomicAdd(&histogram.high[bin], high);
}

/// Returns the bin of log2(weight), 23 bins per octave; the last bin contains all weights below 2^-44.4.
__device__ __forceinline__ int CoarseBin(const RowView& row, float logit) {
  return static_cast<int>(fminf(-Log2Weight(row, logit) * 23.0f, static_cast<float>(kBins - 1)));
}

/// The tokens and the mass before a place in sorted order.
struct Prefix {
  Count tokens, mass;
};
__device__ __forceinline__ Count Of(const Prefix& prefix, bool by_mass) {
  return by_mass ? prefix.mass : prefix.tokens;
}

/// Counts all tokens except forbidden ones, and returns their number and mass. Tokens that tie with the best
/// one and tokens of the last bin, which may be many, are counted in registers.
__device__ inline Prefix FillCoarse(const RowView& row, Histogram& coarse) {
  Clear(coarse);
  Count best = 0, last = 0;
  ForEachLogit(row.logits, row.vocab, [&](int, float logit) {
    if (!(logit > kForbidden)) return;
    const int bin = CoarseBin(row, logit);
    if (logit == row.best) {
      ++best;
    } else if (bin == kBins - 1) {
      ++last;
    } else {
      AddTo(coarse, bin, 1, FixedWeight(Weight(row, logit)));
    }
  });
  best = BlockSumOf(best);
  last = BlockSumOf(last);
  if (threadIdx.x == 0) {
    AddTo(coarse, 0, static_cast<unsigned>(best), best * FixedWeight(1.0f));
    AddTo(coarse, kBins - 1, static_cast<unsigned>(last), 0);
  }
  __syncthreads();
  Prefix all{0, 0};
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kSampleThreads) {
    all.tokens += coarse.count[bin];
    all.mass += static_cast<Count>(coarse.high[bin]) << 32 | coarse.low[bin];
  }
  return {BlockSumOf(all.tokens), BlockSumOf(all.mass)};
}

/// The bin in which the prefix reaches `rank` >= 1, and the prefix before that bin, including `before`.
struct FoundBin {
  Prefix before;
  int bin;
};
__device__ inline FoundBin FindBin(const Histogram& histogram, Prefix before, bool by_mass, Count rank) {
  NUMOE_SHARED(Prefix, warps, [kSampleWarps]);
  NUMOE_SHARED(FoundBin, found);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int first = static_cast<int>(threadIdx.x) * 2;
  Prefix own[2];
  for (int i = 0; i < 2; ++i) {
    own[i] = {histogram.count[first + i],
              static_cast<Count>(histogram.high[first + i]) << 32 | histogram.low[first + i]};
  }
  Prefix sum{own[0].tokens + own[1].tokens,
             own[0].mass + own[1].mass};  // inclusive sum over the warp's lanes so far
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const Count tokens = __shfl_up_sync(~0u, sum.tokens, static_cast<unsigned>(lanes));
    const Count mass = __shfl_up_sync(~0u, sum.mass, static_cast<unsigned>(lanes));
    if (lane >= lanes) sum = {sum.tokens + tokens, sum.mass + mass};
  }
  __syncthreads();
  if (lane == 31) warps[warp] = sum;
  if (threadIdx.x == 0) found = {before, -1};
  __syncthreads();
  Prefix at{before.tokens + sum.tokens - own[0].tokens - own[1].tokens,
            before.mass + sum.mass - own[0].mass - own[1].mass};
  for (int other = 0; other < warp; ++other) {
    at = {at.tokens + warps[other].tokens, at.mass + warps[other].mass};
  }
  for (int i = 0; i < 2; ++i) {
    const Prefix next{at.tokens + own[i].tokens, at.mass + own[i].mass};
    if (Of(at, by_mass) < rank && Of(next, by_mass) >= rank) found = {at, first + i};
    at = next;
  }
  __syncthreads();
  return found;
}

/// A place in sorted order: the logit, its number among equal logits, and the mass up to and including it.
struct Place {
  unsigned key;
  Count tie;
  Count mass;
};

/// Returns the first place whose prefix, including itself, has `rank` tokens, or mass `rank` if `by_mass`.
/// REQUIRES: 1 <= rank <= all.
__device__ inline Place Select(const RowView& row, const Histogram& coarse, Histogram& fine, bool by_mass,
                               Count rank) {
  FoundBin found = FindBin(coarse, {0, 0}, by_mass, rank);
  const int bin = found.bin;
  unsigned low = ~0u, high = 0;
  ForEachLogit(row.logits, row.vocab, [&](int, float logit) {
    if (!(logit > kForbidden) || CoarseBin(row, logit) != bin) return;
    const unsigned key = SortKey(logit);
    low = min(low, key);
    high = max(high, key);
  });
  high = static_cast<unsigned>(BlockMaxOf(high));
  low = ~static_cast<unsigned>(BlockMaxOf(~low));
  while (low != high) {
    const int bits = 32 - __clz(static_cast<int>(high - low));
    const int shift = bits > kBinBits ? bits - kBinBits : 0;
    Clear(fine);
    ForEachLogit(row.logits, row.vocab, [&](int, float logit) {
      const unsigned key = SortKey(logit);
      if (key >= low && key <= high) {
        AddTo(fine, static_cast<int>((high - key) >> shift), 1, FixedWeight(Weight(row, logit)));
      }
    });
    __syncthreads();
    found = FindBin(fine, found.before, by_mass, rank);
    high -= static_cast<unsigned>(found.bin) << shift;
    const unsigned span = (1u << shift) - 1;
    low = high - low > span ? high - span : low;
  }
  const Count weight = FixedWeight(Weight(row, LogitOfKey(high)));
  const Count missing = rank - Of(found.before, by_mass) - 1;
  const Count tie = by_mass ? missing / weight : missing;
  return {high, tie, found.before.mass + (tie + 1) * weight};
}

/// Writes the tokens with this key in ascending order, without the first `skip` of them, at most `wanted`.
__device__ inline void TokensOfKey(const RowView& row, unsigned key, int skip, int wanted, int* tokens) {
  if (skip == 0 && wanted == 1) {
    Count first = 0;
    ForEachLogit(row.logits, row.vocab, [&](int token, float logit) {
      const Count candidate = SortKey(logit) == key ? ~static_cast<Count>(token) : 0;
      first = candidate > first ? candidate : first;
    });
    first = BlockMaxOf(first);
    if (threadIdx.x == 0) tokens[0] = static_cast<int>(~first);
    __syncthreads();
    return;
  }
  NUMOE_SHARED(int, warps, [kSampleWarps]);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  int place = -skip;  // the index of the next match
  for (int first = 0; first < row.vocab && place < wanted; first += kSampleThreads) {
    const int token = first + static_cast<int>(threadIdx.x);
    const bool match = token < row.vocab && SortKey(row.logits[token]) == key;
    const unsigned matches = __ballot_sync(~0u, match);
    __syncthreads();
    if (lane == 0) warps[warp] = __popc(matches);
    __syncthreads();
    int before = place + __popc(matches & ((1u << lane) - 1));
    for (int other = 0; other < kSampleWarps; ++other) {
      if (other < warp) before += warps[other];
      place += warps[other];
    }
    if (match && before >= 0 && before < wanted) tokens[before] = token;
  }
  __syncthreads();
}

}  // namespace numoe::execution::cuda
