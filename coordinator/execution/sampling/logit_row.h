// Passes over a row of logits that drawing tokens and telling their probabilities share.
//
// Written so that the compiler works on several values at once, on any instruction set: floats are compared
// as integers of the same order, and the exponential is a polynomial. Stateless; any thread.
#pragma once

#include <cstdint>

#include "absl/base/casts.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe::execution {

/// Integers in the order of the floats (IEEE 754): unlike floats, the compiler takes their maximum in
/// vectors.
inline int32_t OrderKey(float x) {
  const int32_t bits = absl::bit_cast<int32_t>(x + 0.0f);  // -0 becomes +0
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

/// exp for x <= 0 down to exp(-87): 2^n * 2^f with a Taylor polynomial for 2^f, |f| <= 1/2. The relative
/// error is below 2^-22 + |x| * 2^-23, because x * log2(e) is rounded to a float.
inline float ExpOfNegative(float x) {
  constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23: adding it rounds
  float t = x * 1.44269504f;
  t = t < -126.0f ? -126.0f : t;
  const float shifted = t + kToInteger;
  const float f = t - (shifted - kToInteger);
  float p = f * 1.54035304e-4f + 1.33335581e-3f;
  p = p * f + 9.61812911e-3f;
  p = p * f + 5.55041087e-2f;
  p = p * f + 2.40226507e-1f;
  p = p * f + 6.93147181e-1f;
  p = p * f + 1.0f;
  return absl::bit_cast<float>(absl::bit_cast<int32_t>(p) + (absl::bit_cast<int32_t>(shifted) << 23));
}

/// The largest of their OrderKeys.
int32_t LargestKey(absl::Span<const float> logits);
/// DATA_LOSS, of a row that has NaN or infinity.
absl::Status NotANumber();
/// The largest logit's lowest index. DATA_LOSS: one of them is NaN or infinite.
absl::StatusOr<TokenId> FindBest(absl::Span<const float> logits);
/// The sum of exp(logit - best), where no logit is larger than `best`.
double SumOfExps(absl::Span<const float> logits, float best);

}  // namespace numoe::execution
