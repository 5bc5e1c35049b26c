#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/sampling.h"
#include "coordinator/execution/device/cuda/kernels/sampling_row.cuh"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {
namespace {

constexpr float kLargestLogit = 1e30f;  // bounds logits after rules, so that they stay finite
constexpr int kMaskBits = 64;

// --- mask and rules --------------------------------------------------------------------------------------

__device__ __forceinline__ float Bounded(float logit) {  // NaN stays NaN
  return logit < -kLargestLogit ? -kLargestLogit : kLargestLogit < logit ? kLargestLogit : logit;
}

/// Does the same as LogitRules::Apply, for one token.
__device__ __forceinline__ float Ruled(const SamplingRow& params, const TokenRule& rule, float logit) {
  if (rule.biased) logit = Bounded(__fadd_rn(logit, rule.bias));
  if (!rule.seen) return logit;
  logit = logit > 0 ? __fdiv_rn(logit, params.repetition) : __fmul_rn(logit, params.repetition);
  if (rule.generated > 0) {
    const float counted = __fmul_rn(params.frequency, static_cast<float>(rule.generated));
    logit = __fadd_rn(logit, -__fadd_rn(counted, params.presence));
  }
  return Bounded(logit);
}

/// Whether the mask allows the token; any token is allowed if `mask` is null.
__device__ __forceinline__ bool IsAllowed(const uint64_t* mask, int token) {
  return mask == nullptr || (mask[token / kMaskBits] >> token % kMaskBits & 1) != 0;
}

/// Writes the row after mask and rules are applied; if `forbid`, late tokens are forbidden too.
__device__ inline void Shape(const SamplingArgs& args, const SamplingRow& params, const float* raw,
                             float* shaped, bool forbid) {
  const uint64_t* const mask =
      params.masked ? args.masks + static_cast<int64_t>(params.slot) * args.mask_words : nullptr;
  ForEachLogit(raw, params.vocab,
               [&](int token, float logit) { shaped[token] = IsAllowed(mask, token) ? logit : kForbidden; });
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < params.rules_count; i += kSampleThreads) {
    const TokenRule rule = args.rules[params.rules_begin + i];
    if (rule.token >= params.vocab || !IsAllowed(mask, rule.token)) continue;
    shaped[rule.token] = forbid && rule.late ? kForbidden : Ruled(params, rule, raw[rule.token]);
  }
  __syncthreads();
}

// --- drawing ---------------------------------------------------------------------------------------------

__device__ __forceinline__ uint64_t Mix(uint64_t x) {  // SplitMix64, as in CounterUniform
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

struct Scratch {
  Histogram coarse, fine;
};

/// Draws the token of a row that has candidates and is not greedy.
__device__ inline int Draw(const SamplingRow& params, const RowView& row, int best_token, Scratch& scratch) {
  NUMOE_SHARED(int, token, [1]);
  const Prefix all = FillCoarse(row, scratch.coarse);
  Count total = all.mass;
  if (params.top_k > 0 && static_cast<Count>(params.top_k) < all.tokens) {
    total = Select(row, scratch.coarse, scratch.fine, false, static_cast<Count>(params.top_k)).mass;
  }
  Count mass = total;
  if (params.top_p < 1) {  // the shortest prefix whose mass reaches top_p of the total
    const double reach = ceil(params.top_p * static_cast<double>(total));
    const Count rank = reach < 1 ? 1 : static_cast<Count>(reach);
    const Count kept = Select(row, scratch.coarse, scratch.fine, true, rank < total ? rank : total).mass;
    mass = kept < mass ? kept : mass;
  }
  if (params.min_p > 0) {
    Count kept = 0;
    ForEachLogit(row.logits, row.vocab, [&](int t, float logit) {
      const float weight = Weight(row, logit);
      if (t == best_token || (weight >= params.min_p && logit > kForbidden)) kept += FixedWeight(weight);
    });
    kept = BlockSumOf(kept);
    mass = kept < mass ? kept : mass;
  }
  const uint64_t bits = Mix(Mix(params.seed) ^ static_cast<uint64_t>(params.position)) >> 11;
  const double uniform = static_cast<double>(bits) * 0x1p-53;
  const Count rank = static_cast<Count>(uniform * static_cast<double>(mass)) + 1;
  const Place place = Select(row, scratch.coarse, scratch.fine, true, rank < mass ? rank : mass);
  TokensOfKey(row, place.key, static_cast<int>(place.tie), 1, token);
  return token[0];
}

// --- log-probabilities -----------------------------------------------------------------------------------

/// Does the same as ReadLogprobs, with the row as the model computed it.
__device__ inline void ReadLogprobs(const SamplingRow& params, const RowView& row, Scratch& scratch,
                                    SampledToken& out) {
  NUMOE_SHARED(int, tokens, [kTopLogprobsMax]);
  NUMOE_SHARED(int, above_count);
  const Prefix all = FillCoarse(row, scratch.coarse);
  const unsigned chosen_key = SortKey(row.logits[out.token]);
  Count above = 0;
  ForEachLogit(row.logits, row.vocab,
               [&](int, float logit) { above += SortKey(logit) > chosen_key ? 1 : 0; });
  above = BlockSumOf(above);
  const double log_total = log(static_cast<double>(all.mass) * 0x1p-44);
  const auto logprob = [&](int token) {
    return static_cast<float>(static_cast<double>(row.logits[token]) - row.best - log_total);
  };
  const int wanted = min(params.top_logprobs, static_cast<int>(all.tokens));
  if (wanted > 0) {
    const Place last = Select(row, scratch.coarse, scratch.fine, false, static_cast<Count>(wanted));
    const int sure = wanted - 1 - static_cast<int>(last.tie);  // tokens that are better than the last one
    if (threadIdx.x == 0) above_count = 0;
    __syncthreads();
    ForEachLogit(row.logits, row.vocab, [&](int token, float logit) {
      if (SortKey(logit) > last.key) tokens[atomicAdd(&above_count, 1)] = token;
    });
    TokensOfKey(row, last.key, 0, wanted - sure, tokens + sure);
  }
  if (threadIdx.x != 0) return;
  out.logprob = logprob(out.token);
  out.rank = 1 + static_cast<int>(above);
  out.top_count = wanted;
  for (int i = 0; i < wanted; ++i) {  // insertion sort, since they are few
    const int token = tokens[i];
    const unsigned key = SortKey(row.logits[token]);
    int place = i;
    for (; place > 0; --place) {
      const int other = out.top_tokens[place - 1];
      const unsigned other_key = SortKey(row.logits[other]);
      if (other_key > key || (other_key == key && other < token)) break;
      out.top_tokens[place] = other;
      out.top_logprobs[place] = out.top_logprobs[place - 1];
    }
    out.top_tokens[place] = token;
    out.top_logprobs[place] = logprob(token);
  }
}

// Two blocks per multiprocessor; without this bound, ptxas spills registers on sm_86 and sm_89 to fit three.
__global__ void __launch_bounds__(kSampleThreads, 2) Sample(SamplingArgs args) {
  NUMOE_SHARED(Scratch, scratch);
  NUMOE_SHARED(SampledToken, out);
  const int64_t row = blockIdx.x;
  const SamplingRow params = args.params[row];
  const float* const raw = args.logits + row * args.stride;
  const bool shapes = params.slot >= 0;
  float* const shaped = args.shaped + static_cast<int64_t>(shapes ? params.slot : 0) * args.stride;
  const float* const logits = shapes ? shaped : raw;
  SampleStatus status = SampleStatus::kPadding;
  Best best{};
  int token = -1;
  if (params.position >= 0) {
    if (shapes) Shape(args, params, raw, shaped, params.forbids);
    best = FindBest(logits, params.vocab);
    if (!best.bad && best.logit == kForbidden && params.masked && params.forbids) {
      Shape(args, params, raw, shaped,
            false);  // if rules forbid all tokens that the mask allows, late ones are allowed
      best = FindBest(logits, params.vocab);
    }
    status = best.bad                   ? SampleStatus::kNotANumber
             : best.logit == kForbidden ? SampleStatus::kNothingAllowed
                                        : SampleStatus::kOk;
  }
  if (status == SampleStatus::kOk) {
    const bool greedy = !(params.inverse_temperature > 0) || params.top_k == 1;
    token = best.token;
    if (!greedy) {
      token =
          Draw(params, {logits, params.vocab, best.logit, params.inverse_temperature}, best.token, scratch);
    }
  }
  if (threadIdx.x == 0) {
    out.token = token;
    out.logprob = 0;
    out.rank = out.top_count = 0;
    for (int i = 0; i < kTopLogprobsMax; ++i) {
      out.top_tokens[i] = -1;
      out.top_logprobs[i] = 0;
    }
  }
  __syncthreads();
  if (status == SampleStatus::kOk && params.top_logprobs >= 0) {
    if (shapes) best = FindBest(raw, params.vocab);
    if (best.bad) {
      status = SampleStatus::kNotANumber;
    } else {
      ReadLogprobs(params, {raw, params.vocab, best.logit, 1.0f}, scratch, out);
    }
  }
  if (threadIdx.x != 0) return;
  out.status = status;
  if (status != SampleStatus::kOk) out.token = -1;
  args.sampled[row] = out;
}

}  // namespace

void LaunchSample(const SamplingArgs& args, Stream stream) {
  NUMOE_CHECK_GT(args.rows, 0);
  NUMOE_CHECK_EQ(args.stride % 4, 0);
  NUMOE_LAUNCH(Sample, (LaunchShape{dim3(static_cast<unsigned>(args.rows)), dim3(kSampleThreads)}), stream,
               args);
}

}  // namespace numoe::execution::cuda
