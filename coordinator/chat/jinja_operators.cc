// The interpreter's operators: slices, signs, arithmetic, comparisons. Python's semantics on Jinja's values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "coordinator/chat/jinja_interpreter.h"

namespace numoe::jinja {

Value Interpreter::EvalSlice(const Node& node) {
  const Value base = Eval(*node.args[0]);
  NUMOE_DCHECK_EQ(node.args.size(), 4u);
  const List* list = base.list();
  const Str* str = base.str();
  if (failed()) return {};
  if (list == nullptr && str == nullptr) return Fail(fmt::format("cannot slice {}", TypeName(base)));
  const std::vector<size_t> offsets = str != nullptr ? CodePointOffsets(str->text()) : std::vector<size_t>();
  const auto size = static_cast<int64_t>(list != nullptr ? list->size() : offsets.size() - 1);
  int64_t bounds[3] = {0, 0, 1};
  bool given[3] = {};
  for (int i = 0; i < 3; ++i) {
    if (node.args[i + 1] == nullptr) continue;
    const Value value = Eval(*node.args[i + 1]);
    if (value.none()) continue;
    const auto number = AsInt(value);
    if (!number) return Fail(fmt::format("slice bound is {}, expected an integer", TypeName(value)));
    bounds[i] = *number;
    given[i] = true;
  }
  const int64_t step = given[2] ? bounds[2] : 1;
  if (step == 0) return Fail("slice step is 0");
  const auto clamp = [&](int64_t at, int64_t low, int64_t high) {
    return std::clamp(at < 0 ? at + size : at, low, high);
  };
  const int64_t begin = step > 0 ? (given[0] ? clamp(bounds[0], 0, size) : 0)
                                 : (given[0] ? clamp(bounds[0], -1, size - 1) : size - 1);
  const int64_t end = step > 0 ? (given[1] ? clamp(bounds[1], 0, size) : size)
                               : (given[1] ? clamp(bounds[1], -1, size - 1) : -1);
  List items;
  Str text;
  // A step beyond 64 bits leads past the end in either direction.
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (!Charge(1)) return {};
    if (list != nullptr) {
      items.push_back((*list)[i]);
    } else {
      text.Append(str->Substr(offsets[i], offsets[i + 1] - offsets[i]));
    }
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return list != nullptr ? Value::NewList(std::move(items)) : Value(std::move(text));
}

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

Value Interpreter::EvalUnary(const Node& node) {
  NUMOE_DCHECK(node.args.size() == 1 && (node.text == "not" || node.text == "-" || node.text == "+"));
  const Value value = Eval(*node.args[0]);
  if (node.text == "not") return Value(!Truthy(value));
  if (failed()) return {};
  if (const auto i = AsInt(value)) {
    if (node.text != "-") return Value(*i);
    const auto negated = IntegerArithmetic("-", 0, *i);
    return negated ? *negated : Fail("integer overflow");
  }
  if (const auto d = AsDouble(value)) return Value(node.text == "-" ? -*d : *d);
  return Fail(fmt::format("bad operand for unary {}: {}", node.text, TypeName(value)));
}

Value Interpreter::EvalBinary(const Node& node) {
  const std::string& op = node.text;
  NUMOE_DCHECK_EQ(node.args.size(), 2u);
  const Value a = Eval(*node.args[0]);
  if (op == "and") return Truthy(a) ? Eval(*node.args[1]) : a;
  if (op == "or") return Truthy(a) ? a : Eval(*node.args[1]);
  const Value b = Eval(*node.args[1]);
  if (failed()) return {};
  line_ = node.line;
  if (op == "~" || (op == "+" && a.str() != nullptr && b.str() != nullptr)) {
    Str text = ToStr(a);
    text.Append(ToStr(b));
    if (!Charge(static_cast<int64_t>(text.size() / 256))) return {};
    return Value(std::move(text));
  }
  if (op == "+" && a.list() != nullptr && b.list() != nullptr) {
    List items = *a.list();
    items.insert(items.end(), b.list()->begin(), b.list()->end());
    return Charge(static_cast<int64_t>(items.size())) ? Value::NewList(std::move(items)) : Value();
  }
  if (op == "*" && (a.str() != nullptr || b.str() != nullptr) && (AsInt(a) || AsInt(b))) {
    const Str& unit = a.str() != nullptr ? *a.str() : *b.str();
    const int64_t times = a.str() != nullptr ? *AsInt(b) : *AsInt(a);
    Str text;
    for (int64_t i = 0; i < times && Charge(1 + static_cast<int64_t>(unit.size() / 64)); ++i)
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
    return Fail(fmt::format("'{}' is undefined: cannot compute {}",
                            std::get<Undefined>(a.undefined() ? a.data : b.data).name, op));
  }
  return Fail(fmt::format("cannot compute {} {} {}", TypeName(a), op, TypeName(b)));
}

Value Interpreter::EvalCompare(const Node& node) {
  NUMOE_DCHECK_EQ(node.args.size(), node.names.size() + 1);
  Value left = Eval(*node.args[0]);
  for (size_t i = 0; i < node.names.size(); ++i) {
    Value right = Eval(*node.args[i + 1]);
    if (failed()) return {};
    if (!CompareOne(node.names[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

bool Interpreter::CompareOne(const std::string& op, const Value& a, const Value& b) {
  if (op == "==") return Equal(a, b);
  if (op == "!=") return !Equal(a, b);
  if (op == "in" || op == "not in") {
    bool found = false;
    if (b.str() != nullptr) {
      if (a.str() == nullptr) {
        Fail(fmt::format("cannot look for {} in a string", TypeName(a)));
        return false;
      }
      found = b.str()->text().find(a.str()->text()) != std::string::npos;
    } else if (b.dict() != nullptr) {
      found = b.dict()->Find(a) != nullptr;
    } else {
      for (const Value& item : Iterate(b)) found = found || Equal(item, a);
    }
    return found == (op == "in");
  }
  const std::optional<int> order = Compare(a, b);
  if (!order) {
    Fail(fmt::format("cannot compare {} {} {}", TypeName(a), op, TypeName(b)));
    return false;
  }
  if (op == "<") return *order < 0;
  if (op == "<=") return *order <= 0;
  if (op == ">") return *order > 0;
  NUMOE_DCHECK_EQ(op, ">=");
  return *order >= 0;
}

}  // namespace numoe::jinja
