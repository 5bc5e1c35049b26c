#include "coordinator/text/grammar/json_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <tuple>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::text::grammar {
namespace {

constexpr int kExponentMax = 400;  // larger than that of any double
constexpr int kMultipleMax = 1'000;
// Doubles distinguish all numbers with at most this number of digits.
constexpr size_t kDigitsMax = 15;

// Compares strings of digits without a sign or leading zeros.
int CompareDigits(const std::string& a, const std::string& b) {
  NUMOE_DCHECK(!a.empty() && !b.empty());
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

std::string PlusOne(std::string digits) {
  NUMOE_DCHECK(!digits.empty());
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i]++ != '9') return digits;
    digits[i] = '0';
  }
  return "1" + digits;
}

std::string MinusOne(std::string digits) {  // REQUIRES: not "0"
  NUMOE_DCHECK(!digits.empty() && digits != "0");
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i]-- != '0') break;
    digits[i] = '9';
  }
  return digits.size() > 1 && digits[0] == '0' ? digits.substr(1) : digits;
}

int CompareMagnitude(const Decimal& a, const Decimal& b) {
  if (const int order = CompareDigits(a.whole, b.whole); order != 0) return order;
  return a.fraction.compare(b.fraction);
}

// Makes expressions for magnitudes, which are numbers without a sign.
class Magnitudes {
 public:
  explicit Magnitudes(Expressions& e)
      : e_(e), digit_(Between('0', '9')), any_(e.Repeat(digit_, 0, kUnbounded)) {}

  // Whole numbers from `low` to `high`; without an upper bound if there is no `high`.
  ExprId Whole(const std::string& low, const std::optional<std::string>& high) {
    if (high.has_value() && CompareDigits(*high, low) < 0) return e_.Never();
    std::vector<ExprId> parts;
    if (high.has_value() && high->size() == low.size()) return SameLength(low, *high);
    parts.push_back(SameLength(low, std::string(low.size(), '9')));
    const int shortest =
        static_cast<int>(low.size());  // the least number of digits after the first in longer ones
    const int longest = high.has_value() ? static_cast<int>(high->size()) - 2 : kUnbounded;
    if (longest == kUnbounded || shortest <= longest)
      parts.push_back(e_.Sequence({Between('1', '9'), e_.Repeat(digit_, shortest, longest)}));
    if (high.has_value()) parts.push_back(SameLength("1" + std::string(high->size() - 1, '0'), *high));
    return e_.Choice(parts);
  }

  // Decimals of at least `bound`, or of more than `bound` if `exclusive`.
  ExprId AtLeast(const Decimal& bound, bool exclusive) {
    const ExprId fraction = e_.Optional(e_.Sequence({e_.Literal("."), digit_, any_}));
    const ExprId some = e_.Sequence({any_, Between('1', '9'), any_});  // more than zero
    std::vector<ExprId> after;  // alternatives for the fraction if the whole parts are equal
    if (bound.fraction.empty()) {
      after.push_back(exclusive ? e_.Sequence({e_.Literal("."), some}) : fraction);
    } else {
      for (size_t i = 0; i < bound.fraction.size(); ++i)
        after.push_back(e_.Sequence({e_.Literal("." + bound.fraction.substr(0, i)),
                                     Between(static_cast<char>(bound.fraction[i] + 1), '9'), any_}));
      after.push_back(e_.Sequence({e_.Literal("." + bound.fraction), exclusive ? some : any_}));
    }
    return e_.Choice({e_.Sequence({Whole(PlusOne(bound.whole), std::nullopt), fraction}),
                      e_.Sequence({e_.Literal(bound.whole), e_.Choice(after)})});
  }

  ExprId AtMost(const Decimal& bound, bool exclusive) {
    const ExprId fraction = e_.Optional(e_.Sequence({e_.Literal("."), digit_, any_}));
    const ExprId zeros = e_.Repeat(e_.Literal("0"), 0, kUnbounded);
    std::vector<ExprId> after;
    if (bound.fraction.empty()) {
      if (!exclusive) after = {e_.Empty(), e_.Sequence({e_.Literal(".0"), zeros})};
    } else {
      after.push_back(e_.Empty());
      for (size_t i = 0; i < bound.fraction.size(); ++i) {
        const std::string shared = "." + bound.fraction.substr(0, i);
        if (i > 0) after.push_back(e_.Literal(shared));
        after.push_back(
            e_.Sequence({e_.Literal(shared), Between('0', static_cast<char>(bound.fraction[i] - 1)), any_}));
      }
      if (!exclusive) after.push_back(e_.Sequence({e_.Literal("." + bound.fraction), zeros}));
    }
    std::vector<ExprId> parts = {e_.Sequence({e_.Literal(bound.whole), e_.Choice(after)})};
    if (bound.whole != "0") parts.push_back(e_.Sequence({Whole("0", MinusOne(bound.whole)), fraction}));
    return e_.Choice(parts);
  }

 private:
  ExprId Between(char low, char high) {
    if (low > high) return e_.Never();
    return e_.Chars({{static_cast<uint32_t>(low), static_cast<uint32_t>(high)}});
  }

  ExprId SameLength(const std::string& low, const std::string& high) {
    NUMOE_DCHECK_EQ(low.size(), high.size());
    NUMOE_DCHECK_LE(low, high);
    if (low.empty()) return e_.Empty();
    const auto rest = static_cast<int>(low.size()) - 1;
    const std::string zeros(low.size() - 1, '0'), nines(low.size() - 1, '9');
    if (low.substr(1) == zeros && high.substr(1) == nines)
      return e_.Sequence({Between(low[0], high[0]), e_.Repeat(digit_, rest, rest)});
    if (low[0] == high[0])
      return e_.Sequence({Between(low[0], low[0]), SameLength(low.substr(1), high.substr(1))});
    return e_.Choice({e_.Sequence({Between(low[0], low[0]), SameLength(low.substr(1), nines)}),
                      e_.Sequence({Between(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)),
                                   e_.Repeat(digit_, rest, rest)}),
                      e_.Sequence({Between(high[0], high[0]), SameLength(zeros, high.substr(1))})});
  }

  Expressions& e_;
  const ExprId digit_;
  const ExprId any_;
};

// Bounds on a magnitude. The numbers on the other side of zero are left out.
struct MagnitudeBounds {
  Decimal low = {.whole = "0"};
  bool low_exclusive = false;
  std::optional<Decimal> high;
  bool high_exclusive = false;
};

// Returns the bounds on the magnitude of the values with one sign; nullopt if no value of that sign is within
// `bounds`.
std::optional<MagnitudeBounds> OneSide(const NumberBounds& bounds, bool negative) {
  const std::optional<Decimal>& near = negative ? bounds.high : bounds.low;
  const std::optional<Decimal>& far = negative ? bounds.low : bounds.high;
  MagnitudeBounds side;
  side.low_exclusive = negative;  // excludes negative zero
  if (near.has_value() && near->negative == negative && !near->IsZero()) {
    side.low = *near;
    side.low_exclusive = negative ? bounds.high_exclusive : bounds.low_exclusive;
  } else if (near.has_value() && near->IsZero()) {
    side.low_exclusive = negative || bounds.low_exclusive;
  }
  if (far.has_value()) {
    if (far->negative != negative && !far->IsZero()) return std::nullopt;
    if (far->IsZero() && negative) return std::nullopt;
    side.high = *far;
    side.high_exclusive = negative ? bounds.low_exclusive : bounds.high_exclusive;
  }
  return side;
}

ExprId WholeSide(Expressions& e, const MagnitudeBounds& side) {
  const std::string low =
      !side.low.fraction.empty() || side.low_exclusive ? PlusOne(side.low.whole) : side.low.whole;
  std::optional<std::string> high;
  if (side.high.has_value()) {
    high = side.high->whole;
    if (side.high_exclusive && side.high->fraction.empty()) {
      if (*high == "0") return e.Never();
      high = MinusOne(*high);
    }
  }
  if (!high.has_value()) high = std::string(std::max(kDigitsMax, low.size()), '9');
  return Magnitudes(e).Whole(low, high);
}

absl::StatusOr<ExprId> DecimalSide(Expressions& e, const MagnitudeBounds& side, const GrammarLimits& limits) {
  Magnitudes magnitudes(e);
  std::vector<ExprId> parts = {magnitudes.AtLeast(side.low, side.low_exclusive)};
  size_t length = std::max(kDigitsMax, side.low.whole.size() + side.low.fraction.size() + 2);
  if (side.high.has_value()) {
    parts.push_back(magnitudes.AtMost(*side.high, side.high_exclusive));
    length = std::max(length, side.high->whole.size() + side.high->fraction.size() + 2);
  }
  parts.push_back(e.Repeat(e.Chars({{'.', '.'}, {'0', '9'}}), 1, static_cast<int>(length)));
  std::shared_ptr<const Dfa> all;
  for (const ExprId part : parts) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Dfa> machine, CompileMachine(e, part, limits));
    if (all != nullptr) {
      ASSIGN_OR_RETURN(machine, Combine(*all, *machine, Combination::kBoth, limits));
    }
    all = std::move(machine);
  }
  return all->empty() ? e.Never() : e.Machine(std::move(all));
}

absl::StatusOr<ExprId> Range(Expressions& e, const NumberBounds& bounds, bool fractions,
                             const GrammarLimits& limits) {
  std::vector<ExprId> parts;
  for (const bool negative : {false, true}) {
    const std::optional<MagnitudeBounds> side = OneSide(bounds, negative);
    if (!side.has_value()) continue;
    ExprId magnitude = e.Never();
    if (fractions) {
      ASSIGN_OR_RETURN(magnitude, DecimalSide(e, *side, limits));
    } else {
      magnitude = WholeSide(e, *side);
    }
    parts.push_back(negative ? e.Sequence({e.Literal("-"), magnitude}) : magnitude);
  }
  return e.Choice(parts);
}

// An automaton for the decimal numbers that `multiple` divides. Its states are the remainder of the digits
// read so far, scaled so that the multiple is a whole number, and the number of digits after the point.
class MultipleMachine {
 public:
  MultipleMachine(int multiple, int scale, bool fractions)
      : multiple_(multiple), scale_(scale), fractions_(fractions) {}

  std::shared_ptr<const Dfa> Build() {
    const int32_t start = At(kStart, 0), minus = At(kMinus, 0);
    AddByte(start, '-', minus);
    for (const int32_t from : {start, minus})
      for (int d = 0; d < 10; ++d) AddByte(from, static_cast<char>('0' + d), At(d == 0 ? kZero : kWhole, d));
    for (size_t i = 0; i < keys_.size(); ++i) Expand(i);
    for (DfaState& state : dfa_.states)
      std::sort(state.bytes.begin(), state.bytes.end(),
                [](const ByteEdge& a, const ByteEdge& b) { return a.low < b.low; });
    Trim(dfa_, {});
    return std::make_shared<const Dfa>(std::move(dfa_));
  }

 private:
  // Places in the number. kPoint + n is the place after n digits of the fraction; digits that no longer
  // matter stay in the last place.
  enum Place { kStart, kMinus, kZero, kWhole, kPoint };

  int32_t At(int place, int remainder) {
    const auto [found, added] =
        ids_.try_emplace({place, remainder % multiple_}, static_cast<int32_t>(keys_.size()));
    if (added) {
      keys_.push_back(found->first);
      dfa_.states.emplace_back();
    }
    return found->second;
  }
  void AddByte(int32_t from, char byte, int32_t to) {
    const auto b = static_cast<uint8_t>(byte);
    dfa_.states[static_cast<size_t>(from)].bytes.push_back({b, b, to});
  }

  void Expand(size_t index) {
    const auto [place, remainder] = keys_[index];
    if (place < kZero) return;
    const auto from = static_cast<int32_t>(index);
    const int read = std::max(0, place - kPoint);  // digits of the fraction
    int rest = remainder;
    for (int i = read; i < scale_; ++i) rest = rest * 10 % multiple_;
    dfa_.states[index].final = place != kPoint && rest == 0;
    for (int d = 0; d < 10; ++d) {
      const char byte = static_cast<char>('0' + d);
      if (place == kWhole) AddByte(from, byte, At(kWhole, remainder * 10 + d));
      if (place < kPoint) continue;
      if (read < scale_) {
        AddByte(from, byte, At(place + 1, remainder * 10 + d));
      } else if (d == 0) {
        AddByte(from, byte, At(std::max<int>(place, kPoint + 1), remainder));
      }
    }
    if (fractions_ && place < kPoint) AddByte(from, '.', At(kPoint, remainder));
  }

  const int multiple_;
  const int scale_;
  const bool fractions_;
  Dfa dfa_;
  std::map<std::pair<int, int>, int32_t> ids_;
  std::vector<std::pair<int, int>> keys_;
};

absl::StatusOr<std::shared_ptr<const Dfa>> MultiplesOf(const Decimal& multiple, bool fractions) {
  std::string digits = multiple.whole + multiple.fraction;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  const int value = digits.size() > 6 ? kMultipleMax + 1 : std::atoi(digits.c_str());
  if (value > kMultipleMax || value <= 0 || multiple.fraction.size() > kDigitsMax) {
    return absl::UnimplementedError(fmt::format(
        "multipleOf with a value of more than 3 significant digits, or with more than {} decimals, is "
        "not supported",
        kDigitsMax));
  }
  return MultipleMachine(value, static_cast<int>(multiple.fraction.size()), fractions).Build();
}

}  // namespace

std::optional<Decimal> Decimal::Parse(std::string_view text) {
  Decimal result;
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return std::string(text.substr(begin, at - begin));
  };
  const bool negative = at < text.size() && text[at] == '-';
  if (negative) ++at;
  result.whole = digits();
  if (result.whole.empty()) return std::nullopt;
  if (at < text.size() && text[at] == '.') {
    ++at;
    result.fraction = digits();
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    if (++at < text.size() && text[at] == '+') ++at;
    int exponent = 0;
    const auto end = std::from_chars(text.data() + at, text.data() + text.size(), exponent);
    if (end.ec != std::errc() || std::abs(exponent) > kExponentMax) return std::nullopt;
    at = static_cast<size_t>(end.ptr - text.data());
    for (int i = 0; i < exponent; ++i) {
      result.whole += result.fraction.empty() ? '0' : result.fraction[0];
      if (!result.fraction.empty()) result.fraction.erase(0, 1);
    }
    for (int i = 0; i > exponent; --i) {
      result.fraction.insert(0, 1, result.whole.empty() ? '0' : result.whole.back());
      if (!result.whole.empty()) result.whole.pop_back();
    }
  }
  if (at != text.size()) return std::nullopt;
  result.whole.erase(0, std::min(result.whole.find_first_not_of('0'), result.whole.size()));
  if (result.whole.empty()) result.whole = "0";
  while (!result.fraction.empty() && result.fraction.back() == '0') result.fraction.pop_back();
  result.negative = negative && !result.IsZero();
  return result;
}

size_t Decimal::SignificantDigits() const {
  const std::string digits = whole + fraction;
  const size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return 0;
  return digits.find_last_not_of('0') + 1 - first;
}

int Decimal::Compare(const Decimal& other) const {
  if (negative != other.negative) return negative ? -1 : 1;
  return negative ? CompareMagnitude(other, *this) : CompareMagnitude(*this, other);
}

void NumberBounds::AtLeast(const Decimal& bound, bool exclusive) {
  const int order = low.has_value() ? bound.Compare(*low) : 1;
  if (order > 0) low_exclusive = exclusive;
  if (order == 0) low_exclusive |= exclusive;
  if (order > 0) low = bound;
}

void NumberBounds::AtMost(const Decimal& bound, bool exclusive) {
  const int order = high.has_value() ? bound.Compare(*high) : -1;
  if (order < 0) high_exclusive = exclusive;
  if (order == 0) high_exclusive |= exclusive;
  if (order < 0) high = bound;
}

absl::StatusOr<ExprId> BoundedNumber(Expressions& expressions, const NumberBounds& bounds, bool fractions,
                                     const GrammarLimits& limits) {
  NUMOE_CHECK(bounds.any());
  ASSIGN_OR_RETURN(const ExprId range, Range(expressions, bounds, fractions, limits));
  if (bounds.multiples_of.empty() || expressions.IsNever(range)) return range;
  ASSIGN_OR_RETURN(std::shared_ptr<const Dfa> machine, CompileMachine(expressions, range, limits));
  for (const Decimal& multiple : bounds.multiples_of) {
    ASSIGN_OR_RETURN(const auto multiples, MultiplesOf(multiple, fractions));
    ASSIGN_OR_RETURN(machine, Combine(*machine, *multiples, Combination::kBoth, limits));
  }
  return machine->empty() ? expressions.Never() : expressions.Machine(std::move(machine));
}

}  // namespace numoe::text::grammar
