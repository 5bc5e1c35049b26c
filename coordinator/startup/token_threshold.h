// TokenThreshold: from how many tokens of a step on something is done another way.
//
// The word of two flags, --two-batch-overlap and --gpu-prefill-token-threshold: off, auto, or a number of
// tokens. Values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace numoe::startup {

struct Never {
  bool operator==(const Never&) const = default;
};
/// Where it measures faster.
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

/// The fewest tokens that a flag takes: fewer cannot be cut in two, or are no prompt.
inline constexpr int kThresholdTokensMin = 2;

/// INVALID_ARGUMENT says what was found and what is expected.
absl::StatusOr<TokenThreshold> ParseTokenThreshold(std::string_view text);
/// The word that ParseTokenThreshold reads.
std::string ToString(const TokenThreshold& threshold);

}  // namespace numoe::startup
