#include "coordinator/startup/token_threshold.h"

#include <fmt/format.h>

#include <charconv>
#include <variant>

#include "common/base/check.h"

namespace numoe::startup {

absl::StatusOr<TokenThreshold> ParseTokenThreshold(std::string_view text) {
  if (text == "off") return Never{};
  if (text == "auto") return Measured{};
  FromTokens from;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, from.tokens);
  if (read.ec == std::errc() && read.ptr == end && from.tokens >= kThresholdTokensMin) return from;
  return absl::InvalidArgumentError(fmt::format(
      "found \"{}\", expected auto, off or a number of tokens, {} or more", text, kThresholdTokensMin));
}

std::string ToString(const TokenThreshold& threshold) {
  if (IsNever(threshold)) return "off";
  if (IsMeasured(threshold)) return "auto";
  static_assert(std::variant_size_v<TokenThreshold> == 3, "the third kind is a number");
  const int tokens = std::get<FromTokens>(threshold).tokens;
  NUMOE_CHECK_GE(tokens, kThresholdTokensMin) << "ParseTokenThreshold would refuse it";
  return std::to_string(tokens);
}

}  // namespace numoe::startup
