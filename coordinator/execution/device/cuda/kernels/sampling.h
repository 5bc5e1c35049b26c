// Draws tokens on the device: computes tokens and their log-probabilities from rows of logits, without the
// host.
//
// The rules are those of Sampler, LogitRules and ReadLogprobs (coordinator/execution/sampling), in the same
// order and with the same fp32 operations on each logit: bias, penalties, forbidden tokens, mask; then either
// the best token, or temperature, top-k, top-p, min-p and a random number that is a function of seed and
// position. A row is never sorted: the token at which a prefix of the sorted row reaches a count or a mass is
// found by narrowing a histogram of keys.
//
// It may differ from Sampler as follows. Weights are the same floats, but they are summed as 64-bit integers
// in units of 2^-44 of the best token's weight, so that the sum does not depend on the schedule; Sampler sums
// doubles. For a weight below 2^-21 the fraction of a unit is lost, so the mass of a prefix is too small by
// at most 2^-44 for each such token in it. A different token may be drawn (the neighbour in sorted order), or
// top-p may keep one token more or less, only if the random number or top_p is that close to a boundary
// between two tokens; a token that weighs less than a unit is never drawn. Greedy, top-k and min-p decide by
// the floats themselves and give the same result, except where the smaller of two logits has the larger
// weight; such weights differ by at most 2^-21. Log-probabilities differ by at most the last two bits. This
// holds on x86-64, where the compiler does not contract Sampler's arithmetic.
//
// One block processes a row: one pass over it for greedy, about ten with top-p, about seven more for
// log-probabilities.
#pragma once

#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"
#include "coordinator/execution/sampling/token_rule.h"

namespace numoe::execution::cuda {

inline constexpr int kTopLogprobsMax = 20;  // kLogprobsMax of coordinator/execution/sampling/logprobs.h

/// The sampling parameters of one row, in device memory; its rules are a part of the step's list of rules.
struct SamplingRow {
  int64_t position = -1;  // of the token to draw, in its sequence; -1 if no token is drawn from this row
  uint64_t seed = 0;
  double top_p = 1;
  double min_p = 0;
  float inverse_temperature = 0;  // (float)(1 / temperature); 0 for greedy
  int32_t top_k = 0;              // 0 for no limit
  float repetition = 1;           // within 1e-30 ... 1e30, the bounds of LogitRules
  float frequency = 0;
  float presence = 0;
  int32_t vocab = 0;  // this id and higher ones are never drawn and have no probability
  int32_t rules_begin = 0, rules_count = 0;
  int32_t slot = -1;          // row of `shaped` and `masks`; -1 if there are neither rules nor a mask
  bool masked = false;        // the mask does not allow all tokens
  bool forbids = false;       // late tokens are still forbidden
  int32_t top_logprobs = -1;  // -1: no log-probabilities; 0: only that of the drawn token
};

enum class SampleStatus : int32_t {
  kOk,
  kPadding,         // no token was requested
  kNotANumber,      // the row contains NaN or infinity
  kNothingAllowed,  // mask and rules allow no token
};

struct SampledToken {
  int32_t token = -1;
  SampleStatus status = SampleStatus::kPadding;
  float logprob = 0;  // in the model's own distribution
  int32_t rank = 0;   // 1 + the number of more likely tokens
  int32_t top_count = 0;
  int32_t top_tokens[kTopLogprobsMax];  // best first, ties go to the lower id
  float top_logprobs[kTopLogprobsMax];
};

struct SamplingArgs {
  const float* logits = nullptr;  // [rows, stride], 16-byte aligned
  int64_t stride = 0;             // a multiple of 4, at least the vocab of every row
  int rows = 0;
  const SamplingRow* params = nullptr;  // [rows]
  const TokenRule* rules = nullptr;
  const uint64_t* masks =
      nullptr;              // [slots, mask_words]: token t is allowed if bit t % 64 of word t / 64 is set
  int mask_words = 0;       // enough for every row's vocab
  float* shaped = nullptr;  // [slots, stride], scratch: rows after rules and masks were applied
  SampledToken* sampled = nullptr;  // [rows]
};
void LaunchSample(const SamplingArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
