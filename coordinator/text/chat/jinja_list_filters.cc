// Filters of lists, mappings and other values that can be iterated.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_filters.h"
#include "coordinator/text/chat/jinja_operators.h"
#include "coordinator/text/chat/jinja_repr.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

// Returns the key of an item for sorting and comparing: an attribute, several with commas between them, or
// the item itself. Text is in lower case unless `case_sensitive`.
Value KeyOf(Rendering& in, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = attribute != nullptr && !attribute->none() ? Lookup(in, item, *attribute) : item;
  return key.str() != nullptr && !case_sensitive ? Value::Text(Lower(key.str()->text())) : key;
}

Value KeysOf(Rendering& in, const Value& item, const Value* attribute, bool case_sensitive) {
  const Str* names = attribute == nullptr ? nullptr : attribute->str();
  if (names == nullptr || names->text().find(',') == std::string::npos)
    return KeyOf(in, item, attribute, case_sensitive);
  List keys;
  const std::string& text = names->text();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const Value name = Value::Text(text.substr(begin, end - begin));
    keys.push_back(KeyOf(in, item, &name, case_sensitive));
    begin = end + 1;
  }
  return Value::NewList(std::move(keys));
}

// Sorts items by `keys`; the sort is stable. Fails if two keys cannot be compared.
List Sorted(Rendering& in, const List& items, const List& keys, bool reverse) {
  NUMOE_DCHECK_EQ(items.size(), keys.size());
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = reverse ? order.size() - 1 - i : i;
  bool comparable = in.Charge(static_cast<int64_t>(items.size()) * 4);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const std::optional<int> c = Compare(keys[a], keys[b]);
    comparable = comparable && c.has_value();
    return c.value_or(0) < 0;
  });
  if (!comparable) in.Fail("sort: items cannot be compared");
  if (reverse) std::reverse(order.begin(), order.end());
  NUMOE_DCHECK_EQ(order.size(), items.size());
  List sorted;
  for (const size_t i : order) sorted.push_back(items[i]);
  return sorted;
}

List SortedBy(Rendering& in, const List& items, const Value* attribute, bool case_sensitive, bool reverse) {
  List keys;
  for (const Value& item : items) keys.push_back(KeysOf(in, item, attribute, case_sensitive));
  return in.failed() ? List() : Sorted(in, items, keys, reverse);
}

Value LengthFilter(Rendering& in, const Value& v, const Arguments&) {
  if (v.str() != nullptr && !in.Charge(static_cast<int64_t>(v.str()->size() / 256))) return {};
  const std::optional<int64_t> length = Length(v);
  return length ? Value(*length) : in.Fail(fmt::format("length: {} has no length", TypeName(v)));
}

Value ItemsFilter(Rendering& in, const Value& v, const Arguments&) {
  if (v.undefined()) return Value::NewGenerator({});
  if (v.dict() == nullptr || v.dict()->is_namespace)
    return in.Fail(fmt::format("items: expected a mapping, found {}", TypeName(v)));
  List items;
  for (const auto& [key, item] : v.dict()->items) items.push_back(Value::NewTuple({key, item}));
  return Value::NewGenerator(std::move(items));
}

Value DictSortFilter(Rendering& in, const Value& v, const Arguments& args) {
  const std::string by = args.Text(1, "by", "key");
  if (by != "key" && by != "value") return in.Fail("dictsort: expected 'key' or 'value' to sort by");
  const Value pairs = ItemsFilter(in, v, {});
  if (in.failed()) return {};
  if (v.undefined()) return in.Fail("dictsort: expected a mapping, found undefined");
  List keys;
  for (const Value& pair : *pairs.list())
    keys.push_back(
        KeyOf(in, (*pair.list())[by == "value" ? 1 : 0], nullptr, args.Flag(0, "case_sensitive", false)));
  return Value::NewList(Sorted(in, *pairs.list(), keys, args.Flag(2, "reverse", false)));
}

// select, reject, selectattr and rejectattr keep the items for which a test, or truth if there is none, is
// `wanted`.
Value Select(Rendering& in, const Value& v, const Arguments& args, bool by_attribute, bool wanted) {
  const size_t skip = by_attribute ? 1 : 0;
  if (args.positional.size() < skip)
    return in.Fail("selectattr and rejectattr: expected the name of an attribute");
  Arguments rest;
  if (args.positional.size() > skip + 1)
    rest.positional.assign(args.positional.begin() + static_cast<int64_t>(skip) + 1, args.positional.end());
  if (!Truthy(v)) return Value::NewGenerator({});
  rest.keywords = args.keywords;
  List kept;
  for (const Value& item : Iterate(in, v)) {
    const Value subject = by_attribute ? Lookup(in, item, args.positional[0]) : item;
    const bool pass = args.positional.size() > skip
                          ? RunTest(in, ToStr(args.positional[skip]).text(), subject, rest)
                          : Truthy(subject);
    if (in.failed()) return {};
    if (pass == wanted) kept.push_back(item);
  }
  return Value::NewGenerator(std::move(kept));
}

Value MapFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* attribute = args.positional.empty() ? args.Get(0, "attribute") : nullptr;
  const Value* fallback = args.Get(SIZE_MAX, "default");
  if (!Truthy(v)) return Value::NewGenerator({});
  if (attribute != nullptr && args.keywords.size() > (fallback != nullptr ? 2u : 1u))
    return in.Fail("map: takes attribute and default");
  List out;
  for (const Value& item : Iterate(in, v)) {
    if (attribute != nullptr) {
      out.push_back(Lookup(in, item, *attribute, fallback));
    } else {
      if (args.positional.empty()) return in.Fail("map: expected a filter name or attribute=");
      Arguments rest;
      rest.positional.assign(args.positional.begin() + 1, args.positional.end());
      rest.keywords = args.keywords;
      out.push_back(RunFilter(in, ToStr(args.positional[0]).text(), item, rest));
    }
    if (in.failed()) return {};
  }
  return Value::NewGenerator(std::move(out));
}

Value SortFilter(Rendering& in, const Value& v, const Arguments& args) {
  return Value::NewList(SortedBy(in, Iterate(in, v), args.Get(2, "attribute"),
                                 args.Flag(1, "case_sensitive", false), args.Flag(0, "reverse", false)));
}

Value UniqueFilter(Rendering& in, const Value& v, const Arguments& args) {
  List out, keys;
  for (const Value& item : Iterate(in, v)) {
    if (!in.Charge(1 + static_cast<int64_t>(out.size()))) return {};
    Value key = KeyOf(in, item, args.Get(1, "attribute"), args.Flag(0, "case_sensitive", false));
    if (!Hashable(key))
      return in.Fail(fmt::format("unique: items of type {} cannot be compared", TypeName(key)));
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& seen) { return Equal(seen, key); })) continue;
    keys.push_back(std::move(key));
    out.push_back(item);
  }
  return Value::NewGenerator(std::move(out));
}

Value SumFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* attribute = args.Get(0, "attribute");
  const Value* start = args.Get(1, "start");
  Value total = start != nullptr ? *start : Value(int64_t{0});
  if (total.str() != nullptr) return in.Fail("sum: text cannot be summed; use join");
  for (const Value& item : Iterate(in, v)) {
    const Value x = attribute != nullptr && !attribute->none() ? Lookup(in, item, *attribute) : item;
    if (in.failed()) return {};
    total = BinaryOperator(in, "+", total, x);
  }
  return total;
}

Value Extreme(Rendering& in, const Value& v, const Arguments& args, int sign) {
  NUMOE_DCHECK(sign == 1 || sign == -1);
  const List items = Iterate(in, v);
  if (items.empty()) return Undefined{"No aggregated item, sequence was empty."};
  const auto key = [&](const Value& item) {
    return KeyOf(in, item, args.Get(1, "attribute"), args.Flag(0, "case_sensitive", false));
  };
  Value best = items[0], best_key = key(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value item_key = key(items[i]);
    const std::optional<int> order = Compare(item_key, best_key);
    if (!order) return in.Fail("min and max: items cannot be compared");
    if (*order * sign <= 0) continue;
    best = items[i];
    best_key = std::move(item_key);
  }
  return best;
}

Value BatchFilter(Rendering& in, const Value& v, const Arguments& args) {
  const int64_t size = AsInt(*args.Get(0, "linecount")).value_or(0);
  if (size < 1) return in.Fail("batch: expected a positive count");
  std::vector<List> rows;
  for (const Value& item : Iterate(in, v)) {
    if (rows.empty() || static_cast<int64_t>(rows.back().size()) == size) rows.emplace_back();
    rows.back().push_back(item);
    NUMOE_DCHECK_LE(static_cast<int64_t>(rows.back().size()), size);
  }
  const Value* fill = args.Get(1, "fill_with");
  while (fill != nullptr && !fill->none() && !rows.empty() &&
         static_cast<int64_t>(rows.back().size()) < size && in.Charge(1)) {
    rows.back().push_back(*fill);
  }
  List out;
  for (List& row : rows) out.push_back(Value::NewList(std::move(row)));
  return Value::NewGenerator(std::move(out));
}

Value SliceFilter(Rendering& in, const Value& v, const Arguments& args) {
  const List items = Iterate(in, v);
  const int64_t slices = AsInt(*args.Get(0, "slices")).value_or(0);
  if (slices < 1) return in.Fail("slice: expected a positive count");
  const Value* fill = args.Get(1, "fill_with");
  const auto size = static_cast<int64_t>(items.size());
  List out;
  for (int64_t slice = 0, at = 0; slice < slices && in.Charge(1); ++slice) {
    const int64_t end = at + size / slices + (slice < size % slices ? 1 : 0);
    List row(items.begin() + at, items.begin() + end);
    if (fill != nullptr && !fill->none() && slice >= size % slices) row.push_back(*fill);
    out.push_back(Value::NewList(std::move(row)));
    at = end;
    NUMOE_DCHECK_LE(at, size);
  }
  return Value::NewGenerator(std::move(out));
}

Value GroupByFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* attribute = args.Get(0, "attribute");
  const Value* fallback = args.Get(1, "default");
  const bool case_sensitive = args.Flag(2, "case_sensitive", false);
  const List items = Iterate(in, v);
  const auto key = [&](const Value& item) {
    const Value found = Lookup(in, item, *attribute, fallback);
    return KeyOf(in, found, nullptr, case_sensitive);
  };
  List keys, groups;
  for (const Value& item : items) keys.push_back(key(item));
  if (in.failed()) return {};
  std::shared_ptr<List> last;
  Value last_key;
  for (const Value& item : Sorted(in, items, keys, false)) {
    const Value item_key = key(item);
    if (last == nullptr || !Equal(last_key, item_key)) {
      last = std::make_shared<List>();
      last_key = item_key;
      const Value shown = case_sensitive ? item_key : Lookup(in, item, *attribute, fallback);
      Value group = Value::NewTuple({shown, Value(last)});
      std::get<Sequence>(group.data).label = kGroupLabel;
      groups.push_back(std::move(group));
    }
    NUMOE_DCHECK(!groups.empty());
    last->push_back(item);
  }
  return Value::NewList(std::move(groups));
}

Value FirstFilter(Rendering& in, const Value& v, const Arguments&) {
  if (v.IsSequence(Sequence::Kind::kGenerator) && !v.list()->empty()) {
    List& rest = *v.sequence()->items;
    if (!in.Charge(static_cast<int64_t>(rest.size() / 16))) return {};
    Value first = rest.front();
    rest.erase(rest.begin());
    return first;
  }
  const List items = Iterate(in, v);
  return items.empty() ? Value(Undefined{"No first item, sequence was empty."}) : items.front();
}

Value LastFilter(Rendering& in, const Value& v, const Arguments&) {
  if (v.IsSequence(Sequence::Kind::kGenerator))
    return in.Fail("last: a generator can only be read from its beginning; use list first");
  const List items = Iterate(in, v);
  if (items.empty()) return Undefined{"No last item, sequence was empty."};
  return items.back();
}

Value ReverseFilter(Rendering& in, const Value& v, const Arguments&) {
  if (v.str() != nullptr) return Slice(in, v, {.begin = {}, .end = {}, .step = -1});
  List items = Iterate(in, v);
  std::reverse(items.begin(), items.end());
  return v.IsSequence(Sequence::Kind::kGenerator) ? Value::NewList(std::move(items))
                                                  : Value::NewGenerator(std::move(items));
}

}  // namespace

const FilterTable& ListFilters() {
  using R = Rendering;
  using V = Value;
  using A = Arguments;
  static const FilterTable filters = {
      {"length", {LengthFilter, ""}},
      {"count", {LengthFilter, ""}},
      {"items", {ItemsFilter, ""}},
      {"dictsort", {DictSortFilter, "case_sensitive,by,reverse"}},
      {"map", {MapFilter, "*"}},
      {"select", {[](R& in, const V& v, const A& a) { return Select(in, v, a, false, true); }, "*"}},
      {"reject", {[](R& in, const V& v, const A& a) { return Select(in, v, a, false, false); }, "*"}},
      {"selectattr", {[](R& in, const V& v, const A& a) { return Select(in, v, a, true, true); }, "*"}},
      {"rejectattr", {[](R& in, const V& v, const A& a) { return Select(in, v, a, true, false); }, "*"}},
      {"sort", {SortFilter, "reverse,case_sensitive,attribute"}},
      {"unique", {UniqueFilter, "case_sensitive,attribute"}},
      {"sum", {SumFilter, "attribute,start"}},
      {"min",
       {[](R& in, const V& v, const A& a) { return Extreme(in, v, a, -1); }, "case_sensitive,attribute"}},
      {"max",
       {[](R& in, const V& v, const A& a) { return Extreme(in, v, a, 1); }, "case_sensitive,attribute"}},
      {"batch", {BatchFilter, "linecount;fill_with"}},
      {"slice", {SliceFilter, "slices;fill_with"}},
      {"groupby", {GroupByFilter, "attribute;default,case_sensitive"}},
      {"first", {FirstFilter, ""}},
      {"last", {LastFilter, ""}},
      {"reverse", {ReverseFilter, ""}},
      {"list", {[](R& in, const V& v, const A&) { return V::NewList(Iterate(in, v)); }, ""}},
  };
  return filters;
}

}  // namespace numoe::text::jinja
