// Passes over a row of logits, for drawing tokens and for computing their probabilities.
//
// They are written so that the compiler vectorises them for any instruction set: floats are compared as
// integers of the same order, and the exponential is a polynomial. Stateless; any thread.
#pragma once

#include <cstdint>

#include "absl/base/casts.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe::execution {

/// Returns an integer that has the same order as the floats (IEEE 754). Unlike for floats, the compiler
/// vectorises the maximum of integers.
inline int32_t OrderKey(float x) {
  const int32_t bits = absl::bit_cast<int32_t>(x + 0.0f);  // -0 becomes +0
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

/// Returns exp(x) for x <= 0, down to exp(-87): 2^n * 2^f with a Taylor polynomial for 2^f, |f| <= 1/2. The
/// relative error is below 2^-22 + |x| * 2^-23, because x * log2(e) is rounded to a float.
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

/// Returns the largest OrderKey of the logits.
int32_t LargestKey(absl::Span<const float> logits);
/// Returns DATA_LOSS, the error for a row that contains NaN or infinity.
absl::Status NotANumber();
/// Returns the lowest index of the largest logit; DATA_LOSS if a logit is NaN or infinite.
absl::StatusOr<TokenId> FindBest(absl::Span<const float> logits);
/// Returns the sum of exp(logit - best). REQUIRES: no logit is larger than `best`.
double SumOfExps(absl::Span<const float> logits, float best);

}  // namespace numoe::execution
