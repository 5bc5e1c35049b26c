// The tests of Jinja: `x is name(arguments)`.
#include <fmt/format.h>

#include <map>

#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_builtins.h"
#include "coordinator/text/chat/jinja_objects.h"
#include "coordinator/text/chat/jinja_operators.h"
#include "coordinator/text/chat/jinja_repr.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

struct Test {
  bool (*run)(Rendering&, const Value&, const Arguments&);
  std::string_view signature;  // see TakesArguments
};

const Value& Other(const Arguments& args) {
  return args.positional.empty() ? args.keywords[0].second : args.positional[0];
}

// Returns whether the remainder of a division, as in Python, is `rest`; fails if there is no remainder.
bool RestIs(Rendering& in, const Value& v, const Value& by, int64_t rest) {
  const Value found = BinaryOperator(in, "%", v, by);
  return !in.failed() && Equal(found, Value(rest));
}

bool IsSequence(const Value& v) {
  return v.str() != nullptr || v.indexable() != nullptr || (v.dict() != nullptr && !v.dict()->is_namespace) ||
         v.undefined();
}

// Python's `x is y`. Numbers, text and constants are compared by their values, which mostly has the same
// result as in Python.
bool SameAs(const Value& a, const Value& b) {
  if (a.data.index() != b.data.index()) return false;
  if (a.plain_list() != nullptr || a.dict() != nullptr || a.sequence() != nullptr)
    return a.list() == b.list() && a.dict() == b.dict();
  return Equal(a, b);
}

template <char first, char second>
bool Compares(Rendering& in, const Value& v, const Arguments& a) {
  constexpr char kOperator[] = {first, second, 0};
  return ComparisonHolds(in, kOperator, v, Other(a));
}

const std::map<std::string, Test>& Tests() {
  using R = Rendering;
  using V = Value;
  using A = Arguments;
  static const Test equal = {Compares<'=', '='>, "other;"}, unequal = {Compares<'!', '='>, "other;"};
  static const Test less = {Compares<'<', 0>, "other;"}, at_most = {Compares<'<', '='>, "other;"};
  static const Test more = {Compares<'>', 0>, "other;"}, at_least = {Compares<'>', '='>, "other;"};
  static const std::map<std::string, Test> tests = {
      {"defined", {[](R&, const V& v, const A&) { return !v.undefined(); }, ""}},
      {"undefined", {[](R&, const V& v, const A&) { return v.undefined(); }, ""}},
      {"none", {[](R&, const V& v, const A&) { return v.none(); }, ""}},
      {"string", {[](R&, const V& v, const A&) { return v.str() != nullptr; }, ""}},
      {"mapping",
       {[](R&, const V& v, const A&) { return v.dict() != nullptr && !v.dict()->is_namespace; }, ""}},
      {"iterable",
       {[](R&, const V& v, const A&) {
          return IsSequence(v) || v.list() != nullptr ||
                 (v.object() != nullptr && v.object()->kind == Object::Kind::kLoop);
        },
        ""}},
      {"sequence", {[](R&, const V& v, const A&) { return IsSequence(v); }, ""}},
      {"boolean", {[](R&, const V& v, const A&) { return v.If<bool>() != nullptr; }, ""}},
      {"true", {[](R&, const V& v, const A&) { return v.If<bool>() != nullptr && *v.If<bool>(); }, ""}},
      {"false", {[](R&, const V& v, const A&) { return v.If<bool>() != nullptr && !*v.If<bool>(); }, ""}},
      {"number", {[](R&, const V& v, const A&) { return v.number(); }, ""}},
      {"integer", {[](R&, const V& v, const A&) { return v.If<int64_t>() != nullptr; }, ""}},
      {"float", {[](R&, const V& v, const A&) { return v.If<double>() != nullptr; }, ""}},
      {"callable", {[](R&, const V& v, const A&) { return v.callable() || v.undefined(); }, ""}},
      {"escaped", {[](R&, const V& v, const A&) { return v.str() != nullptr && v.str()->markup(); }, ""}},
      {"lower", {[](R&, const V& v, const A&) { return IsLower(ToStr(v).text()); }, ""}},
      {"upper", {[](R&, const V& v, const A&) { return IsUpper(ToStr(v).text()); }, ""}},
      {"odd", {[](R& in, const V& v, const A&) { return RestIs(in, v, int64_t{2}, 1); }, ""}},
      {"even", {[](R& in, const V& v, const A&) { return RestIs(in, v, int64_t{2}, 0); }, ""}},
      {"divisibleby", {[](R& in, const V& v, const A& a) { return RestIs(in, v, Other(a), 0); }, "num;"}},
      {"in", {[](R& in, const V& v, const A& a) { return ComparisonHolds(in, "in", v, Other(a)); }, "seq;"}},
      {"sameas", {[](R&, const V& v, const A& a) { return SameAs(v, Other(a)); }, "other;"}},
      {"filter",
       {[](R&, const V& v, const A&) { return v.str() != nullptr && IsFilter(v.str()->text()); }, ""}},
      {"test", {[](R&, const V& v, const A&) { return v.str() != nullptr && IsTest(v.str()->text()); }, ""}},
      {"equalto", equal},
      {"eq", equal},
      {"==", equal},
      {"ne", unequal},
      {"!=", unequal},
      {"lt", less},
      {"lessthan", less},
      {"<", less},
      {"le", at_most},
      {"<=", at_most},
      {"gt", more},
      {"greaterthan", more},
      {">", more},
      {"ge", at_least},
      {">=", at_least},
  };
  return tests;
}

}  // namespace

bool IsTest(const std::string& name) { return Tests().count(name) > 0; }

bool RunTest(Rendering& in, const std::string& name, const Value& input, const Arguments& args) {
  const auto it = Tests().find(name);
  if (it != Tests().end())
    return in.Charge(1) && TakesArguments(in, name, it->second.signature, args) &&
           it->second.run(in, input, args);
  in.Fail(fmt::format("no test named '{}'", name));
  return false;
}

}  // namespace numoe::text::jinja
