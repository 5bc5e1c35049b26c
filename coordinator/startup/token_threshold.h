// TokenThreshold: the smallest number of tokens for which a step is computed in another way.
//
// It is the value of two flags, --two-batch-overlap and --gpu-prefill-token-threshold: off, auto, or a number
// of tokens. Plain values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace numoe::startup {

struct Never {
  bool operator==(const Never&) const = default;
};
/// The smallest number of tokens for which the other way was measured to be faster.
struct Measured {
  bool operator==(const Measured&) const = default;
};
struct FromTokens {
  int tokens = 0;
  bool operator==(const FromTokens&) const = default;
};
using TokenThreshold = std::variant<Never, Measured, FromTokens>;

inline bool IsNever(const TokenThreshold& threshold) { return std::holds_alternative<Never>(threshold); }
inline bool IsMeasured(const TokenThreshold& threshold) {
  return std::holds_alternative<Measured>(threshold);
}

/// The smallest number that a flag allows: a step of one token cannot be split, and is not a prompt.
inline constexpr int kThresholdTokensMin = 2;

/// INVALID_ARGUMENT says what was found and what is expected.
absl::StatusOr<TokenThreshold> ParseTokenThreshold(std::string_view text);
/// Returns the text that ParseTokenThreshold reads.
std::string ToString(const TokenThreshold& threshold);

}  // namespace numoe::startup
