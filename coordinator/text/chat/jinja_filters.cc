// The filters of Jinja: `x | name(arguments)`.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>

#include "common/base/check.h"
#include "common/json/json_reader.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_builtins.h"
#include "coordinator/text/chat/jinja_text.h"
#include "nlohmann/json.hpp"

namespace numoe::text::jinja {
namespace {

using Filter = Value (*)(Rendering&, const Value&, const Arguments&);

bool Flag(const Arguments& args, size_t i, std::string_view name, bool fallback) {
  const Value* value = args.Get(i, name);
  return value == nullptr ? fallback : Truthy(*value);
}

Value ToJsonFilter(Rendering& in, const Value& v, const Arguments& args) {
  JsonStyle style;
  style.ensure_ascii = Flag(args, 0, "ensure_ascii", false);
  if (const Value* indent = args.Get(1, "indent"); indent != nullptr && AsInt(*indent)) {
    style.indent = static_cast<int>(std::clamp<int64_t>(*AsInt(*indent), 0, 64));
    style.item_separator = ",";
  }
  if (const Value* separators = args.Get(2, "separators"); separators != nullptr && !separators->none()) {
    const List* pair = separators->list();
    if (pair == nullptr || pair->size() != 2) return in.Fail("tojson: separators must be two strings");
    style.item_separator = ToStr((*pair)[0]).text();
    style.key_separator = ToStr((*pair)[1]).text();
  }
  style.sort_keys = Flag(args, 3, "sort_keys", false);
  const auto text = ToJson(v, style);
  if (!text) return in.Fail(fmt::format("tojson: {} is not JSON serializable", TypeName(v)));
  return Value::Text(*text, /*trusted=*/false);
}

Value LengthFilter(Rendering& in, const Value& v, const Arguments&) {
  if (v.str() != nullptr) return Value(static_cast<int64_t>(CodePointOffsets(v.str()->text()).size() - 1));
  if (v.list() != nullptr) return Value(static_cast<int64_t>(v.list()->size()));
  if (v.dict() != nullptr) return Value(static_cast<int64_t>(v.dict()->items.size()));
  if (v.undefined()) return Value(int64_t{0});
  return in.Fail(fmt::format("length: {} has no length", TypeName(v)));
}

Value ItemsFilter(Rendering& in, const Value& v, const Arguments&) {
  if (v.undefined()) return Value::NewList();
  if (v.dict() == nullptr) return in.Fail(fmt::format("items: expected a mapping, found {}", TypeName(v)));
  List items;
  for (const auto& [key, item] : v.dict()->items) items.push_back(Value::NewList({key, item}));
  return Value::NewList(std::move(items));
}

Value DictSortFilter(Rendering& in, const Value& v, const Arguments& args) {
  if (v.dict() == nullptr) return in.Fail(fmt::format("dictsort: expected a mapping, found {}", TypeName(v)));
  const bool case_sensitive = Flag(args, 0, "case_sensitive", false);
  const size_t by = args.Text(1, "by", "key") == "value" ? 1 : 0;
  List items = *ItemsFilter(in, v, {}).list();
  const auto key = [&](const Value& pair) {
    const Value& item = (*pair.list())[by];
    return item.str() != nullptr && !case_sensitive ? Value::Text(Lower(item.str()->text())) : item;
  };
  std::stable_sort(items.begin(), items.end(),
                   [&](const Value& a, const Value& b) { return Compare(key(a), key(b)).value_or(0) < 0; });
  if (Flag(args, 2, "reverse", false)) std::reverse(items.begin(), items.end());
  return Value::NewList(std::move(items));
}

Value JoinFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* separator = args.Get(0, "d");
  const Value* attribute = args.Get(1, "attribute");
  Str out;
  bool first = true;
  for (const Value& item : Iterate(in, v)) {
    const size_t before = out.size();
    if (!first && separator != nullptr) out.Append(ToStr(*separator));
    first = false;
    out.Append(ToStr(attribute != nullptr ? Lookup(in, item, ToStr(*attribute)) : item));
    if (!in.ChargeText(out.size() - before)) return {};
  }
  return Value(std::move(out));
}

Value DefaultFilter(Rendering&, const Value& v, const Arguments& args) {
  const Value* fallback = args.Get(0, "default_value");
  const bool missing = v.undefined() || (Flag(args, 1, "boolean", false) && !Truthy(v));
  if (!missing) return v;
  return fallback != nullptr ? *fallback : Value::Text("");
}

// select, reject, selectattr, rejectattr: keep items for which a test (truth without one) is `wanted`.
Value Select(Rendering& in, const Value& v, const Arguments& args, bool by_attribute, bool wanted) {
  const size_t skip = by_attribute ? 1 : 0;
  if (args.positional.size() < skip) return in.Fail("selectattr: expected the name of an attribute");
  Arguments rest;
  if (args.positional.size() > skip + 1)
    rest.positional.assign(args.positional.begin() + static_cast<int64_t>(skip) + 1, args.positional.end());
  List kept;
  for (const Value& item : Iterate(in, v)) {
    const Value subject = by_attribute ? Lookup(in, item, ToStr(args.positional[0])) : item;
    const bool pass = args.positional.size() > skip
                          ? RunTest(in, ToStr(args.positional[skip]).text(), subject, rest)
                          : Truthy(subject);
    if (in.failed()) return {};
    if (pass == wanted) kept.push_back(item);
  }
  return Value::NewList(std::move(kept));
}

Value MapFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* attribute = args.Get(99, "attribute");
  List out;
  for (const Value& item : Iterate(in, v)) {
    if (attribute != nullptr) {
      Value found = Lookup(in, item, ToStr(*attribute));
      const Value* fallback = args.Get(99, "default");
      if (found.undefined() && fallback != nullptr) found = *fallback;
      out.push_back(std::move(found));
    } else {
      if (args.positional.empty()) return in.Fail("map: expected a filter name or attribute=");
      Arguments rest;
      rest.positional.assign(args.positional.begin() + 1, args.positional.end());
      rest.keywords = args.keywords;
      out.push_back(RunFilter(in, ToStr(args.positional[0]).text(), item, rest));
    }
    if (in.failed()) return {};
  }
  return Value::NewList(std::move(out));
}

Value SortFilter(Rendering& in, const Value& v, const Arguments& args) {
  const bool case_sensitive = Flag(args, 1, "case_sensitive", false);
  const Value* attribute = args.Get(2, "attribute");
  List items = Iterate(in, v);
  bool comparable = true;
  const auto key = [&](const Value& item) {
    Value k = attribute != nullptr ? Lookup(in, item, ToStr(*attribute)) : item;
    return k.str() != nullptr && !case_sensitive ? Value::Text(Lower(k.str()->text())) : k;
  };
  std::vector<std::pair<Value, size_t>> order;
  for (size_t i = 0; i < items.size(); ++i) order.emplace_back(key(items[i]), i);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    const auto c = Compare(a.first, b.first);
    comparable = comparable && c.has_value();
    return c.value_or(0) < 0;
  });
  if (!comparable) return in.Fail("sort: items cannot be compared");
  List sorted;
  for (const auto& [k, i] : order) sorted.push_back(items[i]);
  NUMOE_DCHECK_EQ(sorted.size(), items.size());
  if (Flag(args, 0, "reverse", false)) std::reverse(sorted.begin(), sorted.end());
  return Value::NewList(std::move(sorted));
}

Value UniqueFilter(Rendering& in, const Value& v, const Arguments&) {
  List out;
  const auto key = [](const Value& x) {
    return x.str() != nullptr ? Value::Text(Lower(x.str()->text())) : x;
  };
  for (const Value& item : Iterate(in, v)) {
    if (!in.Charge(static_cast<int64_t>(out.size()))) return {};
    if (std::none_of(out.begin(), out.end(), [&](const Value& o) { return Equal(key(o), key(item)); }))
      out.push_back(item);
  }
  return Value::NewList(std::move(out));
}

Value IndentFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* width = args.Get(0, "width");
  const std::string pad =
      width == nullptr ? "    "
      : width->str() != nullptr
          ? width->str()->text()
          : std::string(static_cast<size_t>(std::clamp<int64_t>(AsInt(*width).value_or(4), 0, 1000)), ' ');
  const bool first = Flag(args, 1, "first", false);
  const bool blank = Flag(args, 2, "blank", false);
  const Str text = ToStr(v);
  Str out;
  size_t begin = 0;
  bool is_first = true;
  while (begin <= text.size() && in.ChargeText(pad.size())) {
    const size_t end = std::min(text.text().find('\n', begin), text.size());
    const bool empty = end == begin;
    if (!is_first) out.Append(Str("\n", true));
    if ((is_first ? first : true) && (!empty || blank || (is_first && first))) out.Append(Str(pad, true));
    out.Append(text.Substr(begin, end - begin));
    is_first = false;
    begin = end + 1;
  }
  return Value(std::move(out));
}

Value SumFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* attribute = args.Get(0, "attribute");
  double total = 0;
  int64_t whole = 0;
  bool is_float = false;
  for (const Value& item : Iterate(in, v)) {
    const Value x = attribute != nullptr ? Lookup(in, item, ToStr(*attribute)) : item;
    if (!AsDouble(x)) return in.Fail(fmt::format("sum: cannot add {}", TypeName(x)));
    is_float = is_float || x.If<double>() != nullptr;
    total += *AsDouble(x);
    if (__builtin_add_overflow(whole, AsInt(x).value_or(0), &whole))
      return in.Fail("sum: a number beyond 64 bits");
  }
  return is_float ? Value(total) : Value(whole);
}

Value Extreme(Rendering& in, const Value& v, int sign) {
  NUMOE_DCHECK(sign == 1 || sign == -1);
  const List items = Iterate(in, v);
  if (items.empty()) return Undefined{"max"};
  Value best = items[0];
  for (const Value& item : items) {
    if (Compare(item, best).value_or(0) * sign > 0) best = item;
  }
  return best;
}

Value Truncated(Rendering& in, double value) {
  if (!(std::fabs(value) < 0x1p63)) return in.Fail("int: a number beyond 64 bits");
  return Value(static_cast<int64_t>(value));
}

Value IntFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* fallback = args.Get(0, "default");
  if (const auto i = AsInt(v)) return Value(*i);
  if (const auto d = AsDouble(v)) return Truncated(in, *d);
  if (v.str() != nullptr) {
    const std::string text = v.str()->text();
    char* end = nullptr;
    errno = 0;
    const long long parsed = std::strtoll(text.c_str(), &end, 10);
    if (end != text.c_str() && *end == '\0') {
      return errno == ERANGE ? in.Fail("int: a number beyond 64 bits") : Value(static_cast<int64_t>(parsed));
    }
    const double real = std::strtod(text.c_str(), &end);
    if (end != text.c_str() && *end == '\0') return Truncated(in, real);
  }
  return fallback != nullptr ? *fallback : Value(int64_t{0});
}

Value FloatFilter(Rendering&, const Value& v, const Arguments& args) {
  const Value* fallback = args.Get(0, "default");
  if (const auto d = AsDouble(v)) return Value(*d);
  if (v.str() != nullptr) {
    char* end = nullptr;
    const double real = std::strtod(v.str()->text().c_str(), &end);
    if (end != v.str()->text().c_str() && *end == '\0') return Value(real);
  }
  return fallback != nullptr ? *fallback : Value(0.0);
}

Value RoundFilter(Rendering& in, const Value& v, const Arguments& args) {
  const auto number = AsDouble(v);
  if (!number) return in.Fail(fmt::format("round: expected a number, found {}", TypeName(v)));
  const Value* precision = args.Get(0, "precision");
  const double scale =
      std::pow(10.0, precision != nullptr ? static_cast<double>(AsInt(*precision).value_or(0)) : 0.0);
  const std::string method = args.Text(1, "method", "common");
  const double scaled = *number * scale;
  return Value((method == "ceil"    ? std::ceil(scaled)
                : method == "floor" ? std::floor(scaled)
                                    : std::nearbyint(scaled)) /
               scale);
}

Value FromJsonFilter(Rendering& in, const Value& v, const Arguments&) {
  const auto json = ParseBoundedJson(ToStr(v).text());
  if (!json.ok()) return in.Fail("from_json: " + std::string(json.status().message()));
  return FromJson(*json);
}

Value BatchFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* count = args.Get(0, "linecount");
  const int64_t size = count != nullptr ? AsInt(*count).value_or(0) : 0;
  if (size < 1) return in.Fail("batch: expected a positive count");
  List out;
  for (const Value& item : Iterate(in, v)) {
    if (out.empty() || static_cast<int64_t>(out.back().list()->size()) == size)
      out.push_back(Value::NewList());
    std::get<std::shared_ptr<List>>(out.back().data)->push_back(item);
  }
  const Value* fill = args.Get(1, "fill_with");
  while (fill != nullptr && !out.empty() && static_cast<int64_t>(out.back().list()->size()) < size &&
         in.Charge(1)) {
    std::get<std::shared_ptr<List>>(out.back().data)->push_back(*fill);
  }
  return Value::NewList(std::move(out));
}

Value GroupByFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* attribute = args.Get(0, "attribute");
  if (attribute == nullptr) return in.Fail("groupby: expected an attribute");
  Arguments sort;
  sort.keywords = {{"attribute", *attribute}};
  List groups;
  for (const Value& item : Iterate(in, SortFilter(in, v, sort))) {
    const Value key = Lookup(in, item, ToStr(*attribute));
    if (groups.empty() || !Equal((*groups.back().list())[0], key))
      groups.push_back(Value::NewList({key, Value::NewList()}));
    std::get<std::shared_ptr<List>>((*groups.back().list())[1].data)->push_back(item);
  }
  return Value::NewList(std::move(groups));
}

Value FirstOrLast(Rendering& in, const Value& v, bool first) {
  const List items = Iterate(in, v);
  if (items.empty()) return Undefined{first ? "first" : "last"};
  return first ? items.front() : items.back();
}

Value ReverseFilter(Rendering& in, const Value& v, const Arguments&) {
  List items = Iterate(in, v);
  std::reverse(items.begin(), items.end());
  if (v.str() == nullptr) return Value::NewList(std::move(items));
  Str out;
  for (const Value& c : items) {
    NUMOE_DCHECK(c.str() != nullptr);
    out.Append(*c.str());
  }
  return Value(std::move(out));
}

Value MethodFilter(Rendering& in, const std::string& method, const Value& v, const Arguments& args) {
  NUMOE_DCHECK(IsMethod(Value(Str()), method)) << method;
  return RunMethod(in, method, Value(ToStr(v)), args);
}

const std::map<std::string, Filter>& Filters() {
  static const std::map<std::string, Filter> filters = {
      {"tojson", ToJsonFilter},
      {"length", LengthFilter},
      {"count", LengthFilter},
      {"items", ItemsFilter},
      {"dictsort", DictSortFilter},
      {"join", JoinFilter},
      {"default", DefaultFilter},
      {"d", DefaultFilter},
      {"map", MapFilter},
      {"sort", SortFilter},
      {"unique", UniqueFilter},
      {"indent", IndentFilter},
      {"sum", SumFilter},
      {"int", IntFilter},
      {"float", FloatFilter},
      {"round", RoundFilter},
      {"from_json", FromJsonFilter},
      {"batch", BatchFilter},
      {"groupby", GroupByFilter},
      {"reverse", ReverseFilter},
      {"trim",
       [](Rendering& in, const Value& v, const Arguments& a) { return MethodFilter(in, "strip", v, a); }},
      {"upper",
       [](Rendering& in, const Value& v, const Arguments& a) { return MethodFilter(in, "upper", v, a); }},
      {"lower",
       [](Rendering& in, const Value& v, const Arguments& a) { return MethodFilter(in, "lower", v, a); }},
      {"title",
       [](Rendering& in, const Value& v, const Arguments& a) { return MethodFilter(in, "title", v, a); }},
      {"capitalize", [](Rendering& in, const Value& v,
                        const Arguments& a) { return MethodFilter(in, "capitalize", v, a); }},
      {"replace",
       [](Rendering& in, const Value& v, const Arguments& a) { return MethodFilter(in, "replace", v, a); }},
      {"string", [](Rendering&, const Value& v, const Arguments&) { return Value(ToStr(v)); }},
      {"safe", [](Rendering&, const Value& v, const Arguments&) { return v; }},
      {"list",
       [](Rendering& in, const Value& v, const Arguments&) { return Value::NewList(Iterate(in, v)); }},
      {"first", [](Rendering& in, const Value& v, const Arguments&) { return FirstOrLast(in, v, true); }},
      {"last", [](Rendering& in, const Value& v, const Arguments&) { return FirstOrLast(in, v, false); }},
      {"min", [](Rendering& in, const Value& v, const Arguments&) { return Extreme(in, v, -1); }},
      {"max", [](Rendering& in, const Value& v, const Arguments&) { return Extreme(in, v, 1); }},
      {"select",
       [](Rendering& in, const Value& v, const Arguments& a) { return Select(in, v, a, false, true); }},
      {"reject",
       [](Rendering& in, const Value& v, const Arguments& a) { return Select(in, v, a, false, false); }},
      {"selectattr",
       [](Rendering& in, const Value& v, const Arguments& a) { return Select(in, v, a, true, true); }},
      {"rejectattr",
       [](Rendering& in, const Value& v, const Arguments& a) { return Select(in, v, a, true, false); }},
      {"abs",
       [](Rendering& in, const Value& v, const Arguments&) {
         if (const auto i = AsInt(v))
           return *i == INT64_MIN ? in.Fail("abs: a number beyond 64 bits") : Value(*i < 0 ? -*i : *i);
         if (const auto d = AsDouble(v)) return Value(std::fabs(*d));
         return in.Fail(fmt::format("abs: expected a number, found {}", TypeName(v)));
       }},
      {"wordcount",
       [](Rendering& in, const Value& v, const Arguments&) {
         return LengthFilter(in, RunMethod(in, "split", Value(ToStr(v)), {}), {});
       }},
  };
  return filters;
}

}  // namespace

Value RunFilter(Rendering& in, const std::string& name, const Value& input, const Arguments& args) {
  const auto it = Filters().find(name);
  if (it == Filters().end()) return in.Fail(fmt::format("no filter named '{}'", name));
  return it->second(in, input, args);
}

}  // namespace numoe::text::jinja
