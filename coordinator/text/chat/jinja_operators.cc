#include "coordinator/text/chat/jinja_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_format.h"
#include "coordinator/text/chat/jinja_markup.h"
#include "coordinator/text/chat/jinja_repr.h"

namespace numoe::text::jinja {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) {
  NUMOE_DCHECK(b != 0 && b != -1) << "the quotient may overflow";
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

// Returns nullopt if the operation overflows or does not exist for integers.
std::optional<Value> IntegerArithmetic(const std::string& op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == "+") return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional<Value>(out);
  if (op == "-") return __builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional<Value>(out);
  if (op == "*") return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional<Value>(out);
  if (b == 0 && op != "**") return std::nullopt;
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1 && op == "%") return Value(int64_t{0});
  if (b == -1 && op == "//") return IntegerArithmetic("-", 0, a);  // the only quotient that can overflow
  if (op == "//") return Value(FloorDivide(a, b));
  if (op == "%") return Value(a - FloorDivide(a, b) * b);
  if (op == "**" && b >= 0) {
    out = 1;
    for (int64_t i = 0; i < b; ++i) {
      if (i > 64 && (a > 1 || a < -1)) return std::nullopt;
      if (i > 64) return Value(a == 0 ? int64_t{0} : (a == 1 || b % 2 == 0) ? int64_t{1} : int64_t{-1});
      if (__builtin_mul_overflow(out, a, &out)) return std::nullopt;
    }
    return Value(out);
  }
  if (op == "**" && a != 0) return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
  return std::nullopt;
}

std::optional<Value> FloatArithmetic(const std::string& op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") {
    const double power = std::pow(a, b);
    const bool overflow = std::isinf(power) && std::isfinite(a) && std::isfinite(b);
    if (overflow || (std::isnan(power) && !std::isnan(a) && !std::isnan(b))) return std::nullopt;
    return Value(power);
  }
  if (b == 0) return std::nullopt;
  if (op == "/") return Value(a / b);
  double rest = std::fmod(a, b);  // as in Python's divmod, the remainder has the divisor's sign
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (op == "%") return Value(rest != 0 ? rest : std::copysign(0.0, b));
  if (op != "//") return std::nullopt;
  const double whole = std::floor(quotient);
  return Value(quotient == 0 ? std::copysign(0.0, a / b) : quotient - whole > 0.5 ? whole + 1 : whole);
}

// Joins two texts. If only one of them is markup, the other is escaped.
Value JoinTexts(Rendering& in, const Str& a, const Str& b) {
  const bool markup = a.markup() || b.markup();
  Str text = markup ? Escaped(a) : a;
  text.Append(markup ? Escaped(b) : b);
  NUMOE_DCHECK_EQ(text.markup(), markup);
  return in.Room(text.size()) ? Value(std::move(text)) : Value();
}

Value Concatenate(Rendering& in, const Value& a, const Value& b) {
  const bool markup = in.autoescape() && ((a.str() != nullptr && a.str()->markup()) ||
                                          (b.str() != nullptr && b.str()->markup()));
  const Str left = ToStr(a), right = ToStr(b);
  if (markup) return JoinTexts(in, Escaped(left), Escaped(right));
  return JoinTexts(in, left.AsMarkup(false), right.AsMarkup(false));
}

Value Repeat(Rendering& in, const Value& unit, int64_t times) {
  NUMOE_DCHECK(unit.str() != nullptr || unit.plain_list() != nullptr || unit.tuple()) << TypeName(unit);
  const auto size = static_cast<int64_t>(unit.str() != nullptr ? unit.str()->size() : unit.list()->size());
  int64_t total = 0;
  times = std::max<int64_t>(times, 0);
  if (__builtin_mul_overflow(size, times, &total) || !in.Room(static_cast<size_t>(total)))
    return in.Fail(fmt::format("'*' makes more than {} bytes or items", limits::kTemplateOutputBytesMax));
  if (unit.str() != nullptr) {
    Str text = Str().AsMarkup(unit.str()->markup());
    for (int64_t i = 0; i < times && size > 0 && in.Charge(1); ++i) text.Append(*unit.str());
    return Value(std::move(text));
  }
  List items;
  for (int64_t i = 0; i < times && size > 0 && in.Charge(size); ++i)
    items.insert(items.end(), unit.list()->begin(), unit.list()->end());
  return unit.tuple() ? Value::NewTuple(std::move(items)) : Value::NewList(std::move(items));
}

// Computes + and * of texts, lists and tuples, and % of texts; returns nullopt for other operands.
std::optional<Value> SequenceOperator(Rendering& in, const std::string& op, const Value& a, const Value& b) {
  const auto repeats = [](const Value& v) {
    return v.str() != nullptr || v.plain_list() != nullptr || v.tuple();
  };
  const bool lists = (a.plain_list() != nullptr && b.plain_list() != nullptr) || (a.tuple() && b.tuple());
  if (op == "+" && a.str() != nullptr && b.str() != nullptr) return JoinTexts(in, *a.str(), *b.str());
  if (op == "+" && lists) {
    List items = *a.list();
    items.insert(items.end(), b.list()->begin(), b.list()->end());
    if (!in.Charge(static_cast<int64_t>(items.size()))) return Value();
    return a.tuple() ? Value::NewTuple(std::move(items)) : Value::NewList(std::move(items));
  }
  if (op == "*" && repeats(a) && AsInt(b)) return Repeat(in, a, *AsInt(b));
  if (op == "*" && repeats(b) && AsInt(a)) return Repeat(in, b, *AsInt(a));
  if (op == "%" && a.str() != nullptr) return PrintfFormat(in, *a.str(), b);
  return std::nullopt;
}

// Returns the printed form of a part of a range.
std::string RangeLabel(const List& range, int64_t begin, int64_t end, int64_t step) {
  NUMOE_DCHECK_NE(step, 0);
  const int64_t first = range.empty() ? 0 : *AsInt(range.front());
  const int64_t gap = range.size() > 1 ? *AsInt(range[1]) - first : 1;
  const std::string bounds = fmt::format("range({}, {}", first + begin * gap, first + end * gap);
  return gap * step == 1 ? bounds + ")" : fmt::format("{}, {})", bounds, gap * step);
}

// Searching a generator consumes the items up to and including the found one.
bool Contains(Rendering& in, const Value& container, const Value& item) {
  if (!container.IsSequence(Sequence::Kind::kGenerator)) {
    const List items = Iterate(in, container);
    return in.Charge(static_cast<int64_t>(items.size())) &&
           std::any_of(items.begin(), items.end(), [&](const Value& each) { return Equal(each, item); });
  }
  List& items = *container.sequence()->items;
  if (!in.Charge(static_cast<int64_t>(items.size()))) return false;
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const Value& each) { return Equal(each, item); });
  const bool has = found != items.end();
  items.erase(items.begin(), has ? found + 1 : found);
  return has;
}

}  // namespace

bool CanSlice(Rendering& in, const Value& base) {
  if (base.indexable() != nullptr || base.str() != nullptr) return true;
  in.Fail(fmt::format("cannot slice {}", TypeName(base)));
  return false;
}

std::optional<int64_t> SliceBound(Rendering& in, const Value& value) {
  if (value.none()) return std::nullopt;
  const std::optional<int64_t> bound = AsInt(value);
  if (!bound) in.Fail(fmt::format("slice bound is {}, expected an integer", TypeName(value)));
  return bound;
}

Value Slice(Rendering& in, const Value& base, const SliceBounds& bounds) {
  const List* list = base.indexable();
  const Str* str = base.str();
  NUMOE_DCHECK(list != nullptr || str != nullptr);
  const std::vector<size_t> offsets = str != nullptr ? CodePointOffsets(str->text()) : std::vector<size_t>();
  const auto size = static_cast<int64_t>(list != nullptr ? list->size() : offsets.size() - 1);
  const int64_t step = bounds.step.value_or(1);
  if (step == 0) return in.Fail("slice step is 0");
  const auto place = [size](std::optional<int64_t> bound, int64_t low, int64_t high, int64_t otherwise) {
    return bound ? std::clamp(*bound < 0 ? *bound + size : *bound, low, high) : otherwise;
  };
  const int64_t begin =
      step > 0 ? place(bounds.begin, 0, size, 0) : place(bounds.begin, -1, size - 1, size - 1);
  const int64_t end = step > 0 ? place(bounds.end, 0, size, size) : place(bounds.end, -1, size - 1, -1);
  List items;
  Str text;
  // If adding the step overflows 64 bits, the slice has ended, in either direction.
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (!in.Charge(1)) return {};
    if (list != nullptr) {
      items.push_back((*list)[i]);
    } else {
      text.Append(str->Substr(offsets[i], offsets[i + 1] - offsets[i]));
    }
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (list == nullptr) return Value(text.AsMarkup(str->markup()));
  if (base.plain_list() != nullptr) return Value::NewList(std::move(items));
  Sequence part = *base.sequence();
  if (base.IsSequence(Sequence::Kind::kRange)) part.label = RangeLabel(*list, begin, end, step);
  if (base.tuple()) part.label.clear();
  part.items = std::make_shared<List>(std::move(items));
  return Value(std::move(part));
}

Value UnaryOperator(Rendering& in, const std::string& op, const Value& value) {
  NUMOE_DCHECK(op == "not" || op == "-" || op == "+") << op;
  if (op == "not") return Value(!Truthy(value));
  if (const auto i = AsInt(value)) {
    if (op != "-") return Value(*i);
    const auto negated = IntegerArithmetic("-", 0, *i);
    return negated ? *negated : in.Fail("integer overflow");
  }
  if (const auto d = AsDouble(value)) return Value(op == "-" ? -*d : *d);
  return in.Fail(fmt::format("bad operand for unary {}: {}", op, TypeName(value)));
}

Value BinaryOperator(Rendering& in, const std::string& op, const Value& a, const Value& b) {
  if (op == "~") return Concatenate(in, a, b);
  if (std::optional<Value> of_sequences = SequenceOperator(in, op, a, b)) return *std::move(of_sequences);
  std::optional<Value> result;
  if (AsInt(a) && AsInt(b)) {
    result = IntegerArithmetic(op, *AsInt(a), *AsInt(b));
  } else if (AsDouble(a) && AsDouble(b)) {
    result = FloatArithmetic(op, *AsDouble(a), *AsDouble(b));
  }
  if (result) return *result;
  if (a.undefined() || b.undefined()) {
    return in.Fail(fmt::format("'{}' is undefined: cannot compute {}",
                               std::get<Undefined>(a.undefined() ? a.data : b.data).name, op));
  }
  return in.Fail(fmt::format("cannot compute {} {} {}", TypeName(a), op, TypeName(b)));
}

bool ComparisonHolds(Rendering& in, const std::string& op, const Value& a, const Value& b) {
  if (op == "==") return Equal(a, b);
  if (op == "!=") return !Equal(a, b);
  if (op == "in" || op == "not in") {
    bool found = false;
    if (b.str() != nullptr) {
      if (a.str() == nullptr) {
        in.Fail(fmt::format("cannot look for {} in a string", TypeName(a)));
        return false;
      }
      found = b.str()->text().find(a.str()->text()) != std::string::npos;
    } else if (b.dict() != nullptr && !b.dict()->is_namespace) {
      if (!Hashable(a)) in.Fail(fmt::format("{} cannot be a key", TypeName(a)));
      found = b.dict()->Find(a) != nullptr;
    } else {
      found = Contains(in, b, a);
    }
    return found == (op == "in");
  }
  const std::optional<int> order = Compare(a, b);
  if (!order) {
    in.Fail(fmt::format("cannot compare {} {} {}", TypeName(a), op, TypeName(b)));
    return false;
  }
  if (op == "<") return *order < 0;
  if (op == "<=") return *order <= 0;
  if (op == ">") return *order > 0;
  NUMOE_DCHECK_EQ(op, ">=");
  return *order >= 0;
}

}  // namespace numoe::text::jinja
