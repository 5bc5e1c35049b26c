// Numbers in a range, or multiples of a number, as expressions over their decimal digits.
//
// The arithmetic is exact: bounds are decimal strings of any length and are never rounded to doubles. Numbers
// with a bound or a multiple have no exponent and at most 15 digits (or as many as the bound, if it has
// more), so that they are within the bounds also for readers that round to doubles. Negative zero is
// excluded. Pure functions.
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
  bool negative = false;  // false for zero
  std::string whole;      // no leading zeros; "0" if there is nothing before the point
  std::string fraction;   // no trailing zeros

  /// Reads JSON's syntax. Returns nullopt if `text` is not a number or its exponent is beyond +-400.
  static std::optional<Decimal> Parse(std::string_view text);
  /// Returns <0, 0 or >0 if this is less than, equal to or greater than `other`.
  int Compare(const Decimal& other) const;
  bool IsZero() const { return whole == "0" && fraction.empty(); }
  /// Returns the number of digits from the first to the last one that is not zero: 2 for 0.012, 1200 and 1.2;
  /// 0 for zero.
  size_t SignificantDigits() const;
};

struct NumberBounds {
  std::optional<Decimal> low, high;
  bool low_exclusive = false, high_exclusive = false;
  std::vector<Decimal> multiples_of;  // positive

  bool any() const { return low.has_value() || high.has_value() || !multiples_of.empty(); }
  /// Narrow the bounds to at least, or at most, `bound`.
  void AtLeast(const Decimal& bound, bool exclusive);
  void AtMost(const Decimal& bound, bool exclusive);
};

/// Returns an expression for the numbers within `bounds`; only integers if `fractions` is false.
/// UNIMPLEMENTED means that a multiple has more than 3 significant digits or too many decimals. REQUIRES:
/// bounds.any().
absl::StatusOr<ExprId> BoundedNumber(Expressions& expressions, const NumberBounds& bounds, bool fractions,
                                     const GrammarLimits& limits);

}  // namespace numoe::text::grammar
