// Numbers in a range, or multiples of a number, as expressions over their decimal digits.
//
// Exact: bounds are decimal strings of any length, never rounded to a double. Numbers with a bound or a
// multiple are written without exponent and with at most 15 digits (or what the bound has, if it has more),
// so that readers who round to doubles find them within the bounds, too; negative zero is not among them.
// Pure; one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/text/grammar/automaton.h"

namespace numoe::text::grammar {

/// A decimal number without rounding.
struct Decimal {
  bool negative = false;  // never of zero
  std::string whole;      // no leading zeros; "0" if there is nothing before the point
  std::string fraction;   // no trailing zeros

  /// From JSON's syntax. Nothing if it is none, or its exponent is beyond +-400.
  static std::optional<Decimal> Parse(std::string_view text);
  /// <0, 0, >0 as this is less than, equal to, greater than `other`.
  int Compare(const Decimal& other) const;
  bool IsZero() const { return whole == "0" && fraction.empty(); }
  /// From the first digit that is not zero to the last: 2 of 0.012, 1200 and 1.2; 0 of zero.
  size_t SignificantDigits() const;
};

struct NumberBounds {
  std::optional<Decimal> low, high;
  bool low_exclusive = false, high_exclusive = false;
  std::vector<Decimal> multiples_of;  // positive

  bool any() const { return low.has_value() || high.has_value() || !multiples_of.empty(); }
  /// Narrow to at least / at most `bound`.
  void AtLeast(const Decimal& bound, bool exclusive);
  void AtMost(const Decimal& bound, bool exclusive);
};

/// Numbers within `bounds`; with `fractions`, also such that are no integers. UNIMPLEMENTED: a multiple with
/// more than 3 significant digits. REQUIRES: bounds.any().
absl::StatusOr<ExprId> BoundedNumber(Expressions& expressions, const NumberBounds& bounds, bool fractions,
                                     const GrammarLimits& limits);

}  // namespace numoe::text::grammar
