// The counts of a repetition in regular expressions and EBNF: the digits in {3}, {2,} and {2,4}.
//
// A count has only decimal digits, without sign or white space, and is at most kRepeatMax. The limit of a
// grammar's states is reached far earlier, so kRepeatMax only keeps counts in the range of an int. A pure
// function.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"

namespace numoe::text::grammar {

inline constexpr int kRepeatMax = 1'000'000;

/// Reads the digits at `at` and moves `at` after them. Returns nullopt if there are none. If the count is
/// above kRepeatMax, the result is INVALID_ARGUMENT, and `at` is at the digit with which it exceeded the
/// limit.
absl::StatusOr<std::optional<int>> TakeRepeatCount(std::string_view text, size_t& at);

}  // namespace numoe::text::grammar
