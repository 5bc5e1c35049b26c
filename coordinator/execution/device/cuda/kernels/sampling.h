// Drawing tokens on the device: from rows of logits to tokens and their log-probabilities, without the host.
//
// The rules are those of Sampler, LogitRules and ReadLogprobs (coordinator/execution/sampling), in the same
// order and with the same fp32 operations on each logit: bias, penalties, forbidden tokens, mask; then the
// best, or temperature, top-k, top-p and min-p and a number that is a function of seed and position. A row is
// never sorted: the token at which a prefix of the sorted row reaches a count or a mass is found by narrowing
// a histogram of keys.
//
// Where it may differ from Sampler. Weights are the same floats, but summed as 64-bit integers in units of
// 2^-44 of the best one's, which any schedule sums to the same; Sampler sums doubles. Of a weight below 2^-21
// what is less than a unit is lost, so a prefix's mass is too small by at most 2^-44 for each such token in
// it. Another token may be drawn (the neighbour in sorted order), or one token more or less kept by top-p,
// only where the drawn number or top_p is that near to a boundary between two tokens; a token that weighs
// less than a unit is never drawn. Greedy, top-k and min-p decide by the floats themselves and are the same,
// but for two weights that do not fall with their logits, which are 2^-21 apart at most. Log-probabilities
// agree to the last bit or the one before. Held on x86-64, where the compiler contracts nothing of Sampler's
// arithmetic.
//
// A row is one block's work: one pass over it for greedy, about ten with top-p, some seven more for
// log-probabilities.
#pragma once

#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"
#include "coordinator/execution/sampling/token_rule.h"

namespace numoe::execution::cuda {

inline constexpr int kTopLogprobsMax = 20;  // kLogprobsMax of coordinator/execution/sampling/logprobs.h

/// One row's sampling, in device memory; its rules are a stretch of the step's.
struct SamplingRow {
  int64_t position = -1;  // of the token to draw, in its sequence; -1: nothing is drawn from this row
  uint64_t seed = 0;
  double top_p = 1;
  double min_p = 0;
  float inverse_temperature = 0;  // (float)(1 / temperature); 0: greedy
  int32_t top_k = 0;              // 0: off
  float repetition = 1;           // within 1e-30 ... 1e30, as LogitRules bounds them
  float frequency = 0;
  float presence = 0;
  int32_t vocab = 0;  // ids from here on are never drawn and have no probability
  int32_t rules_begin = 0, rules_count = 0;
  int32_t slot = -1;          // row of `shaped` and `masks`; -1: has neither rules nor a mask
  bool masked = false;        // not all tokens may come
  bool forbids = false;       // late tokens may not come yet
  int32_t top_logprobs = -1;  // -1: no log-probabilities; 0: only the drawn token's
};

enum class SampleStatus : int32_t {
  kOk,
  kPadding,         // nothing was to be drawn
  kNotANumber,      // NaN or infinity in the row
  kNothingAllowed,  // mask and rules leave no token
};

struct SampledToken {
  int32_t token = -1;
  SampleStatus status = SampleStatus::kPadding;
  float logprob = 0;  // of the model's own distribution
  int32_t rank = 0;   // 1 + how many are more likely
  int32_t top_count = 0;
  int32_t top_tokens[kTopLogprobsMax];  // best first, of equals the lower id
  float top_logprobs[kTopLogprobsMax];
};

struct SamplingArgs {
  const float* logits = nullptr;  // [rows, stride], 16-byte aligned
  int64_t stride = 0;             // a multiple of 4, no row's vocab is more
  int rows = 0;
  const SamplingRow* params = nullptr;  // [rows]
  const TokenRule* rules = nullptr;
  const uint64_t* masks =
      nullptr;              // [slots, mask_words]: token t may come if bit t % 64 of word t / 64 is set
  int mask_words = 0;       // enough for every row's vocab
  float* shaped = nullptr;  // [slots, stride], scratch: rows as rules and masks change them
  SampledToken* sampled = nullptr;  // [rows]
};
void LaunchSample(const SamplingArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
