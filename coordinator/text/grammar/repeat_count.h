// The counts of a repetition as regular expressions and EBNF write them: the digits in {3}, {2,} and {2,4}.
//
// Stateless. A count has decimal digits alone, without sign or white space, and is at most kRepeatMax: what
// states a grammar may have ends far earlier, so the limit only keeps counts in the range of an int.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"

namespace numoe::text::grammar {

inline constexpr int kRepeatMax = 1'000'000;

/// Reads the digits at `at` and moves `at` after them. Returns nullopt if there are none. INVALID_ARGUMENT:
/// the count is above kRepeatMax; `at` is then at the digit that made it so.
absl::StatusOr<std::optional<int>> TakeRepeatCount(std::string_view text, size_t& at);

}  // namespace numoe::text::grammar
