#include "coordinator/text/chat/jinja_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_access.h"

namespace numoe::text::jinja {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) {
  NUMOE_DCHECK(b != 0 && b != -1) << "the quotient may overflow";
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

// nullopt: the operation overflows or does not exist for integers.
std::optional<Value> IntegerArithmetic(const std::string& op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == "+") return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional<Value>(out);
  if (op == "-") return __builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional<Value>(out);
  if (op == "*") return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional<Value>(out);
  if (b == 0 && op != "**") return std::nullopt;
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1 && op == "%") return Value(int64_t{0});
  if (b == -1 && op == "//") return IntegerArithmetic("-", 0, a);  // the one quotient that can overflow
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
  if (op == "**") return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
  return std::nullopt;
}

std::optional<Value> FloatArithmetic(const std::string& op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) return std::nullopt;
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  if (op == "%") return Value(a - std::floor(a / b) * b);
  return std::nullopt;
}

}  // namespace

bool CanSlice(Rendering& in, const Value& base) {
  if (base.list() != nullptr || base.str() != nullptr) return true;
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
  const List* list = base.list();
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
  // A step beyond 64 bits leads past the end in either direction.
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (!in.Charge(1)) return {};
    if (list != nullptr) {
      items.push_back((*list)[i]);
    } else {
      text.Append(str->Substr(offsets[i], offsets[i + 1] - offsets[i]));
    }
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return list != nullptr ? Value::NewList(std::move(items)) : Value(std::move(text));
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
  if (op == "~" || (op == "+" && a.str() != nullptr && b.str() != nullptr)) {
    Str text = ToStr(a);
    text.Append(ToStr(b));
    if (!in.Charge(static_cast<int64_t>(text.size() / 256))) return {};
    return Value(std::move(text));
  }
  if (op == "+" && a.list() != nullptr && b.list() != nullptr) {
    List items = *a.list();
    items.insert(items.end(), b.list()->begin(), b.list()->end());
    return in.Charge(static_cast<int64_t>(items.size())) ? Value::NewList(std::move(items)) : Value();
  }
  if (op == "*" && (a.str() != nullptr || b.str() != nullptr) && (AsInt(a) || AsInt(b))) {
    const Str& unit = a.str() != nullptr ? *a.str() : *b.str();
    const int64_t times = a.str() != nullptr ? *AsInt(b) : *AsInt(a);
    Str text;
    for (int64_t i = 0; i < times && in.Charge(1 + static_cast<int64_t>(unit.size() / 64)); ++i)
      text.Append(unit);
    return Value(std::move(text));
  }
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
    } else if (b.dict() != nullptr) {
      found = b.dict()->Find(a) != nullptr;
    } else {
      for (const Value& item : Iterate(in, b)) found = found || Equal(item, a);
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
