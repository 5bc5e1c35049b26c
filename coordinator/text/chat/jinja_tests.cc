// The tests of Jinja: `x is name(arguments)`.
#include <fmt/format.h>

#include <map>

#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_builtins.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

using Test = bool (*)(Rendering&, const Value&, const Arguments&);

bool CompareTest(Rendering& in, const Value& v, const Arguments& a, bool (*accept)(int)) {
  const auto order = a.positional.empty() ? std::nullopt : Compare(v, a.positional[0]);
  if (!order) in.Fail("cannot compare in a test");
  return order && accept(*order);
}
bool EqualTest(Rendering&, const Value& v, const Arguments& a) {
  return !a.positional.empty() && Equal(v, a.positional[0]);
}

const std::map<std::string, Test>& Tests() {
  static const std::map<std::string, Test> tests = {
      {"defined", [](Rendering&, const Value& v, const Arguments&) { return !v.undefined(); }},
      {"undefined", [](Rendering&, const Value& v, const Arguments&) { return v.undefined(); }},
      {"none", [](Rendering&, const Value& v, const Arguments&) { return v.none(); }},
      {"string", [](Rendering&, const Value& v, const Arguments&) { return v.str() != nullptr; }},
      {"mapping", [](Rendering&, const Value& v,
                     const Arguments&) { return v.dict() != nullptr && !v.dict()->is_namespace; }},
      {"iterable",
       [](Rendering&, const Value& v, const Arguments&) {
         return v.str() != nullptr || v.list() != nullptr ||
                (v.dict() != nullptr && !v.dict()->is_namespace) || v.undefined();
       }},
      {"sequence",
       [](Rendering&, const Value& v, const Arguments&) {
         return v.str() != nullptr || v.list() != nullptr ||
                (v.dict() != nullptr && !v.dict()->is_namespace) || v.undefined();
       }},
      {"boolean", [](Rendering&, const Value& v, const Arguments&) { return v.If<bool>() != nullptr; }},
      {"true",
       [](Rendering&, const Value& v, const Arguments&) { return v.If<bool>() != nullptr && *v.If<bool>(); }},
      {"false", [](Rendering&, const Value& v,
                   const Arguments&) { return v.If<bool>() != nullptr && !*v.If<bool>(); }},
      {"number", [](Rendering&, const Value& v, const Arguments&) { return v.number(); }},
      {"integer", [](Rendering&, const Value& v, const Arguments&) { return v.If<int64_t>() != nullptr; }},
      {"float", [](Rendering&, const Value& v, const Arguments&) { return v.If<double>() != nullptr; }},
      {"callable", [](Rendering&, const Value& v,
                      const Arguments&) { return v.If<Macro>() != nullptr || v.If<Callable>() != nullptr; }},
      {"lower", [](Rendering&, const Value& v, const Arguments&) { return IsLower(ToStr(v).text()); }},
      {"upper", [](Rendering&, const Value& v, const Arguments&) { return IsUpper(ToStr(v).text()); }},
      {"odd", [](Rendering&, const Value& v, const Arguments&) { return AsInt(v).value_or(0) % 2 != 0; }},
      {"even", [](Rendering&, const Value& v, const Arguments&) { return AsInt(v).value_or(1) % 2 == 0; }},
      {"divisibleby",
       [](Rendering&, const Value& v, const Arguments& a) {
         const int64_t by = a.positional.empty() ? 0 : AsInt(a.positional[0]).value_or(0);
         return by != 0 && AsInt(v).value_or(1) % by == 0;
       }},
      {"in",
       [](Rendering& in, const Value& v, const Arguments& a) {
         if (a.positional.empty()) return false;
         const Value& where = a.positional[0];
         if (where.str() != nullptr)
           return v.str() != nullptr && where.str()->text().find(v.str()->text()) != std::string::npos;
         if (where.dict() != nullptr) return where.dict()->Find(v) != nullptr;
         for (const Value& item : Iterate(in, where)) {
           if (Equal(item, v)) return true;
         }
         return false;
       }},
      {"equalto", EqualTest},
      {"eq", EqualTest},
      {"==", EqualTest},
      {"sameas", EqualTest},
      {"ne", [](Rendering& in, const Value& v, const Arguments& a) { return !EqualTest(in, v, a); }},
      {"!=", [](Rendering& in, const Value& v, const Arguments& a) { return !EqualTest(in, v, a); }},
      {"lt", [](Rendering& in, const Value& v,
                const Arguments& a) { return CompareTest(in, v, a, [](int c) { return c < 0; }); }},
      {"<", [](Rendering& in, const Value& v,
               const Arguments& a) { return CompareTest(in, v, a, [](int c) { return c < 0; }); }},
      {"gt", [](Rendering& in, const Value& v,
                const Arguments& a) { return CompareTest(in, v, a, [](int c) { return c > 0; }); }},
      {">", [](Rendering& in, const Value& v,
               const Arguments& a) { return CompareTest(in, v, a, [](int c) { return c > 0; }); }},
      {"le", [](Rendering& in, const Value& v,
                const Arguments& a) { return CompareTest(in, v, a, [](int c) { return c <= 0; }); }},
      {"ge", [](Rendering& in, const Value& v,
                const Arguments& a) { return CompareTest(in, v, a, [](int c) { return c >= 0; }); }},
  };
  return tests;
}

}  // namespace

bool RunTest(Rendering& in, const std::string& name, const Value& input, const Arguments& args) {
  const auto it = Tests().find(name);
  if (it != Tests().end()) return it->second(in, input, args);
  in.Fail(fmt::format("no test named '{}'", name));
  return false;
}

}  // namespace numoe::text::jinja
