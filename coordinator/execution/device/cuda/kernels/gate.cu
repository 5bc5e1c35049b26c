#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/gate.h"
#include "coordinator/execution/device/cuda/kernels/lanes.cuh"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {
namespace {

// --- logits ------------------------------------------------------------------------------------------------

constexpr int kLogitWarps = 8;
constexpr int kLogitThreads = 32 * kLogitWarps;

/// A block computes kRows rows by kExperts experts. Warp w sums lanes of 8 values w, w + 8, ... of 256; then
/// the warps' sums are added in ascending order. kRows and kExperts do not change the order of a sum, only
/// the block that computes it.
template <int kRows, int kExperts, class T>
__global__ void __launch_bounds__(kLogitThreads) GateLogits(GateLogitsArgs<T> args) {
  NUMOE_SHARED(float, parts, [kLogitWarps][kRows * kExperts]);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first_expert = static_cast<int>(blockIdx.x) * kExperts;
  const int first_row = static_cast<int>(blockIdx.y) * kRows;
  float sums[kRows][kExperts] = {};
  for (int column = (warp * 32 + lane) * kLaneValues; column < args.hidden;
       column += kLogitThreads * kLaneValues) {
    Lane weights[kExperts];
#pragma unroll
    for (int e = 0; e < kExperts; ++e) {  // those that do not exist load another's data and are not stored
      const int expert = min(first_expert + e, args.experts - 1);
      weights[e] = LoadLane(args.weight + static_cast<int64_t>(expert) * args.hidden + column);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = min(first_row + r, args.rows - 1);
      const Lane in = LoadLane(args.in + static_cast<int64_t>(row) * args.hidden + column);
#pragma unroll
      for (int e = 0; e < kExperts; ++e) {
#pragma unroll
        for (int i = 0; i < kLaneValues; ++i) sums[r][e] = __fmaf_rn(in.v[i], weights[e].v[i], sums[r][e]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int e = 0; e < kExperts; ++e) {
      const float sum = WarpSum(sums[r][e]);
      if (lane == 0) parts[warp][r * kExperts + e] = sum;
    }
  }
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x);
  const int row = first_row + mine / kExperts;
  const int expert = first_expert + mine % kExperts;
  if (mine >= kRows * kExperts || row >= args.rows || expert >= args.experts) return;
  float logit = 0;
#pragma unroll
  for (int w = 0; w < kLogitWarps; ++w) logit += parts[w][mine];
  args.logits[static_cast<int64_t>(row) * args.experts + expert] = logit;
}

template <int kRows, int kExperts, class T>
void LaunchLogitsOf(const GateLogitsArgs<T>& args, Stream stream) {
  const dim3 blocks(static_cast<unsigned>((args.experts + kExperts - 1) / kExperts),
                    static_cast<unsigned>((args.rows + kRows - 1) / kRows));
  NUMOE_LAUNCH((GateLogits<kRows, kExperts, T>), (LaunchShape{blocks, dim3(kLogitThreads)}), stream, args);
}

template <class T>
void LaunchLogits(const GateLogitsArgs<T>& args, Stream stream) {
  NUMOE_CHECK_EQ(args.hidden % kLaneValues, 0);
  NUMOE_CHECK(args.rows > 0 && args.experts > 0) << args.rows << " rows, " << args.experts << " experts";
  if (args.rows == 1) return LaunchLogitsOf<1, 2>(args, stream);
  if (args.rows <= 16) return LaunchLogitsOf<4, 2>(args, stream);
  LaunchLogitsOf<16, 4>(args, stream);
}

// --- selection ---------------------------------------------------------------------------------------------

constexpr int kSelectWarps = 4;  // one row for each
constexpr int kExpertsOfLane = kGateExpertsMax / 32;
constexpr unsigned kTaken = 0;

/// Returns a key that is larger for the better choice, in the order of the floats (-0 counts as 0); NaN is
/// the worst. Never returns kTaken.
__device__ __forceinline__ unsigned ChoiceKey(float choice) {
  if (!(choice == choice)) return kTaken + 1;
  const unsigned bits = __float_as_uint(choice + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

/// Computes the scores, from which weights are computed, for this lane's experts lane, lane + 32, ...
__device__ __forceinline__ void Score(const GateSelectArgs& args, const float* logits, int lane,
                                      float* shared, float (&scores)[kExpertsOfLane]) {
  float top = -INFINITY;
#pragma unroll
  for (int j = 0; j < kExpertsOfLane; ++j) {
    const int expert = lane + 32 * j;
    if (expert < args.experts) {
      scores[j] = logits[expert];
      top = fmaxf(top, scores[j]);
    }
  }
  if (args.sigmoid) {
#pragma unroll
    for (int j = 0; j < kExpertsOfLane; ++j) {
      if (lane + 32 * j < args.experts) scores[j] = 1.0f / (1.0f + expf(-scores[j]));
    }
    return;
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, lanes));
#pragma unroll
  for (int j = 0; j < kExpertsOfLane; ++j) {
    if (lane + 32 * j < args.experts) shared[lane + 32 * j] = scores[j] = expf(scores[j] - top);
  }
  __syncwarp();
  // Adds in the order of the reference, because the rounding of quotients, and with it which choices tie,
  // depends on the last bit of the sum.
  float sum = 0;
  for (int e = 0; e < args.experts; ++e) sum += shared[e];
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kExpertsOfLane; ++j) {
    if (lane + 32 * j < args.experts) scores[j] /= sum;
  }
}

/// Returns a mask: bit g is set if group g is among the topk_group groups with the largest sums of their two
/// best choices.
__device__ __forceinline__ unsigned KeptGroups(const GateSelectArgs& args, const float* choices, int lane) {
  const int width = args.experts / args.n_group;
  float first = -INFINITY, second = -INFINITY;
  for (int i = 0; i < width && lane < args.n_group; ++i) {
    const float choice = choices[lane * width + i];
    if (choice > first) {
      second = first;
      first = choice;
    } else if (choice > second) {
      second = choice;
    }
  }
  const unsigned key = lane < args.n_group ? ChoiceKey(width > 1 ? first + second : first) : kTaken;
  int better = 0;
  for (int g = 0; g < args.n_group; ++g) {
    const unsigned other = __shfl_sync(~0u, key, g);
    better += other > key || (other == key && g < lane) ? 1 : 0;
  }
  return __ballot_sync(~0u, lane < args.n_group && better < args.topk_group);
}

/// Returns the place of this lane's expert when the lightest ones are moved to the end; both groups keep
/// their order.
__device__ __forceinline__ int PlaceOf(const GateSelectArgs& args, int chosen, float weight, int lane) {
  int heavier = 0;
  for (int k = 0; k < args.experts_per_token; ++k) {
    const float other = __shfl_sync(~0u, weight, k);
    const int expert = __shfl_sync(~0u, chosen, k);
    heavier += other > weight || (other == weight && expert < chosen) ? 1 : 0;
  }
  const bool selects = lane < args.experts_per_token;
  const bool defers = heavier >= args.experts_per_token - args.deferred_experts;
  const unsigned immediate = __ballot_sync(~0u, selects && !defers);
  const unsigned deferred = __ballot_sync(~0u, selects && defers);
  const unsigned below = (1u << lane) - 1;
  return defers ? __popc(immediate) + __popc(deferred & below) : __popc(immediate & below);
}

__global__ void __launch_bounds__(32 * kSelectWarps) GateSelect(GateSelectArgs args) {
  NUMOE_SHARED(float, scratch, [kSelectWarps][kGateExpertsMax]);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = static_cast<int>(blockIdx.x) * kSelectWarps + warp;
  if (row >= args.rows) return;
  int64_t out = static_cast<int64_t>(row) * args.experts_per_token + lane;
  const bool stores = lane < args.experts_per_token;
  if (args.positions[row] < 0) {
    if (stores) args.chosen[out] = -1;
    if (stores) args.weights[out] = 0;
    return;
  }
  float* const shared = scratch[warp];
  float scores[kExpertsOfLane];
  unsigned keys[kExpertsOfLane];
  Score(args, args.logits + static_cast<int64_t>(row) * args.experts, lane, shared, scores);
  unsigned kept = ~0u;
  if (args.n_group > 1) {
#pragma unroll
    for (int j = 0; j < kExpertsOfLane; ++j) {
      const int e = lane + 32 * j;
      if (e < args.experts) shared[e] = args.bias != nullptr ? scores[j] + args.bias[e] : scores[j];
    }
    __syncwarp();
    kept = KeptGroups(args, shared, lane);
  }
  const int width = args.experts / args.n_group;
#pragma unroll
  for (int j = 0; j < kExpertsOfLane; ++j) {
    const int e = lane + 32 * j;
    keys[j] = kTaken;
    if (e >= args.experts || (args.n_group > 1 && (kept >> e / width & 1) == 0)) continue;
    keys[j] = ChoiceKey(args.bias != nullptr ? scores[j] + args.bias[e] : scores[j]);
  }
  float sum = 0, weight = 0;
  int chosen = 0;
  for (int k = 0; k < args.experts_per_token; ++k) {
    unsigned best = kTaken;
    int expert = kGateExpertsMax;
    float score = 0;
#pragma unroll
    for (int j = 0; j < kExpertsOfLane; ++j) {
      if (keys[j] > best) {
        best = keys[j];
        expert = lane + 32 * j;
        score = scores[j];
      }
    }
    const unsigned top = __reduce_max_sync(~0u, best);
    const int winner = __reduce_min_sync(~0u, best == top ? expert : kGateExpertsMax);
    score = __shfl_sync(~0u, score, winner % 32);
#pragma unroll
    for (int j = 0; j < kExpertsOfLane; ++j) keys[j] = winner == lane + 32 * j ? kTaken : keys[j];
    sum += score;
    if (k == lane) {
      chosen = winner;
      weight = score;
    }
  }
  // The reference guards the sigmoid sum against zero; a softmax sum cannot be zero.
  const float guard = args.sigmoid ? 1e-20f : 0.0f;
  weight = (args.norm_topk_prob ? weight / (sum + guard) : weight) * args.scaling;
  if (args.deferred_experts > 0) out += PlaceOf(args, chosen, weight, lane) - lane;
  if (stores) args.chosen[out] = chosen;
  if (stores) args.weights[out] = weight;
}

}  // namespace

void LaunchGateLogits(const GateLogitsArgs<float>& args, Stream stream) { LaunchLogits(args, stream); }
void LaunchGateLogits(const GateLogitsArgs<Bf16>& args, Stream stream) { LaunchLogits(args, stream); }

void LaunchGateSelect(const GateSelectArgs& args, Stream stream) {
  NUMOE_CHECK(args.rows > 0 && args.experts > 0 && args.experts <= kGateExpertsMax)
      << args.experts << " experts";
  NUMOE_CHECK_LE(args.experts_per_token, kGateChosenMax);
  NUMOE_CHECK(args.n_group > 0 && args.n_group <= kGateGroupsMax) << args.n_group << " groups";
  NUMOE_CHECK_EQ(args.experts % args.n_group, 0);
  NUMOE_CHECK_LE(args.experts_per_token, args.experts / args.n_group * args.topk_group);
  NUMOE_CHECK(args.sigmoid || args.bias == nullptr);
  NUMOE_CHECK(args.deferred_experts == 0 || args.deferred_experts < args.experts_per_token);
  const unsigned blocks = static_cast<unsigned>((args.rows + kSelectWarps - 1) / kSelectWarps);
  NUMOE_LAUNCH(GateSelect, (LaunchShape{dim3(blocks), dim3(32 * kSelectWarps)}), stream, args);
}

}  // namespace numoe::execution::cuda
