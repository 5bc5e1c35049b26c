// Filters of text, and filters that turn any value into text.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/json/json_reader.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_filters.h"
#include "coordinator/text/chat/jinja_format.h"
#include "coordinator/text/chat/jinja_json.h"
#include "coordinator/text/chat/jinja_markup.h"
#include "coordinator/text/chat/jinja_repr.h"
#include "coordinator/text/chat/jinja_string_methods.h"
#include "coordinator/text/chat/jinja_text.h"
#include "coordinator/text/chat/jinja_word_wrap.h"

namespace numoe::text::jinja {
namespace {

Value ToJsonFilter(Rendering& in, const Value& v, const Arguments& args) {
  JsonStyle style;
  style.ensure_ascii = args.Flag(0, "ensure_ascii", false);
  if (const Value* indent = args.Get(1, "indent"); indent != nullptr && !indent->none()) {
    if (indent->str() == nullptr && !AsInt(*indent))
      return in.Fail("tojson: expected an integer or text as indent");
    style.indent = indent->str() != nullptr
                       ? indent->str()->text()
                       : std::string(static_cast<size_t>(std::clamp<int64_t>(*AsInt(*indent), 0, 64)), ' ');
    style.item_separator = ",";
  }
  if (const Value* separators = args.Get(2, "separators"); separators != nullptr && !separators->none()) {
    const List* pair = separators->list();
    if (pair == nullptr || pair->size() != 2) return in.Fail("tojson: separators must be two strings");
    style.item_separator = ToStr((*pair)[0]).text();
    style.key_separator = ToStr((*pair)[1]).text();
  }
  style.sort_keys = args.Flag(3, "sort_keys", false);
  const auto text = ToJson(v, style);
  if (!text) return in.Fail(fmt::format("tojson: {} is not JSON serializable", TypeName(v)));
  return Value::Text(*text, /*trusted=*/false);
}

Value FromJsonFilter(Rendering& in, const Value& v, const Arguments&) {
  const auto json = ParseBoundedJson(ToStr(v).text());
  if (!json.ok()) return in.Fail("from_json: " + std::string(json.status().message()));
  return FromJson(*json);
}

// If output is escaped and an item or the separator is markup, the result is markup.
Value JoinFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* given = args.Get(0, "d");
  const Value* attribute = args.Get(1, "attribute");
  Str separator = given == nullptr ? Str() : ToStr(*given);
  std::vector<Str> parts;
  bool markup = separator.markup();
  for (const Value& item : Iterate(in, v)) {
    parts.push_back(ToStr(attribute != nullptr && !attribute->none() ? Lookup(in, item, *attribute) : item));
    markup = markup || parts.back().markup();
    if (!in.Charge(1)) return {};
  }
  markup = markup && in.autoescape();
  if (markup) separator = Escaped(separator);
  NUMOE_DCHECK(markup == separator.markup() || !in.autoescape());
  Str out = Str().AsMarkup(markup);
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t before = out.size();
    if (i > 0) out.Append(separator);
    out.Append(markup ? Escaped(parts[i]) : parts[i]);
    if (!in.ChargeText(out.size() - before)) return {};
  }
  return Value(std::move(out));
}

Value ReplaceFilter(Rendering& in, const Value& v, const Arguments& args) {
  const auto text_of = [&](size_t i, std::string_view name) { return ToStr(*args.Get(i, name)); };
  Str text = ToStr(v);
  Str before = text_of(0, "old"), after = text_of(1, "new");
  if (!in.autoescape()) {
    text = text.AsMarkup(false);
  } else if (before.markup() || (after.markup() && !text.markup())) {
    text = Escaped(text);
  }
  Arguments rest;
  rest.positional = {Value(before), Value(after)};
  if (const Value* count = args.Get(2, "count"); count != nullptr && !count->none())
    rest.positional.push_back(*count);
  return RunStringMethod(in, "replace", text, rest);
}

Value DefaultFilter(Rendering&, const Value& v, const Arguments& args) {
  const Value* fallback = args.Get(0, "default_value");
  const bool missing = v.undefined() || (args.Flag(1, "boolean", false) && !Truthy(v));
  if (!missing) return v;
  return fallback != nullptr ? *fallback : Value::Text("");
}

Value IndentFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* width = args.Get(0, "width");
  if (v.str() == nullptr) return in.Fail(fmt::format("indent: expected text, found {}", TypeName(v)));
  if (width != nullptr && width->str() == nullptr && !AsInt(*width))
    return in.Fail("indent: expected an integer or text as width");
  const int64_t spaces = width == nullptr ? 4 : std::clamp<int64_t>(AsInt(*width).value_or(0), 0, 1 << 20);
  const Str pad = width != nullptr && width->str() != nullptr
                      ? *width->str()
                      : Str(std::string(static_cast<size_t>(spaces), ' '), true);
  Str text = *v.str();
  text.Append(Str("\n", true));
  const bool blank = args.Flag(2, "blank", false);
  Str out = Str().AsMarkup(text.markup());
  if (args.Flag(1, "first", false)) out.Append(pad);
  bool first = true;
  for (const Value& line : SplitLines(text)) {
    if (!first) out.Append(Str("\n", true));
    if (!first && (blank || !line.str()->empty())) out.Append(pad);
    out.Append(*line.str());
    first = false;
    if (!in.ChargeText(pad.size()) || !in.Room(out.size())) return {};
  }
  return Value(std::move(out));
}

Value TitleFilter(Rendering& in, const Value& v, const Arguments&) {
  const Str text = ToStr(v);
  std::string out, word;
  const auto flush = [&] {
    const std::vector<size_t> offsets = CodePointOffsets(word);
    if (offsets.size() > 1) out += Upper(word.substr(0, offsets[1])) + Lower(word.substr(offsets[1]));
    word.clear();
  };
  ForEachCodePoint(text.text(), [&](int32_t, std::string_view letter) {
    const bool separator =
        SpaceLength(letter) > 0 || std::string_view("-({[<").find(letter) != std::string_view::npos;
    if (!separator) {
      word += letter;
      return;
    }
    flush();
    out += letter;
  });
  flush();
  return in.ChargeText(out.size()) ? Value(Str(std::move(out), text.AllTrusted())) : Value();
}

Value TruncateFilter(Rendering& in, const Value& v, const Arguments& args) {
  const auto number = [&](size_t i, std::string_view name, int64_t otherwise) {
    const Value* given = args.Get(i, name);
    return given == nullptr || given->none() ? otherwise : AsInt(*given).value_or(-1);
  };
  const int64_t length = number(0, "length", 255), leeway = number(3, "leeway", 5);
  const Value* given_end = args.Get(2, "end");
  const Str end = given_end == nullptr ? Str("...", true) : ToStr(*given_end);
  const auto end_size = static_cast<int64_t>(CodePointOffsets(end.text()).size()) - 1;
  if (length < end_size || leeway < 0)
    return in.Fail(
        fmt::format("truncate: expected a length of at least {} and a leeway of at least 0", end_size));
  if (v.undefined()) return v;
  if (v.str() == nullptr) return in.Fail(fmt::format("truncate: expected text, found {}", TypeName(v)));
  const std::vector<size_t> offsets = CodePointOffsets(v.str()->text());
  if (static_cast<int64_t>(offsets.size()) - 1 <= length + leeway) return v;
  Str kept = v.str()->Substr(0, offsets[static_cast<size_t>(length - end_size)]);
  if (!args.Flag(1, "killwords", false)) {
    const size_t space = kept.text().rfind(' ');
    if (space != std::string::npos) kept = kept.Substr(0, space);
  }
  NUMOE_DCHECK_LE(kept.size(), v.str()->size());
  kept.Append(kept.markup() ? Escaped(end) : end);
  return Value(std::move(kept));
}

Value WordWrapFilter(Rendering& in, const Value& v, const Arguments& args) {
  if (v.str() == nullptr) return in.Fail(fmt::format("wordwrap: expected text, found {}", TypeName(v)));
  const Value* width = args.Get(0, "width");
  const WrapStyle style = {.width = width == nullptr ? 79 : AsInt(*width).value_or(0),
                           .break_long_words = args.Flag(1, "break_long_words", true),
                           .break_on_hyphens = args.Flag(3, "break_on_hyphens", true)};
  if (style.width < 1) return in.Fail("wordwrap: expected a width of at least 1");
  const std::string separator = args.Text(2, "wrapstring", "\n");
  std::string out;
  bool first_line = true;
  for (const Value& line : SplitLines(*v.str())) {
    if (!std::exchange(first_line, false)) out += separator;
    bool first_part = true;
    if (!in.ChargeText(line.str()->size() * 8)) return {};
    for (const std::string& part : WrapWords(line.str()->text(), style)) {
      if (!std::exchange(first_part, false)) out += separator;
      out += part;
      if (!in.ChargeText(separator.size()) || !in.Room(out.size())) return {};
    }
  }
  return Value(Str(std::move(out), v.str()->AllTrusted()));
}

Value WordCountFilter(Rendering&, const Value& v, const Arguments&) {
  int64_t count = 0;
  bool inside = false;
  ForEachCodePoint(ToStr(v).text(), [&](int32_t point, std::string_view) {
    const bool word = IsWord(point);
    if (word && !inside) ++count;
    inside = word;
  });
  return count;
}

Value FormatFilter(Rendering& in, const Value& v, const Arguments& args) {
  if (!args.positional.empty() && !args.keywords.empty())
    return in.Fail("format: expected arguments either by position or by name, not both");
  if (args.keywords.empty())
    return PrintfFormat(in, ToStr(v), Value::NewTuple(List(args.positional.begin(), args.positional.end())));
  auto names = std::make_shared<Dict>();
  for (const auto& [key, value] : args.keywords) names->Set(Value::Text(key), value);
  return PrintfFormat(in, ToStr(v), Value(names));
}

// Returns the value with the keys of mappings sorted, as pprint does.
Value WithSortedKeys(const Value& v, int depth = 0) {
  if (depth > 100) return v;
  List items;
  if (v.plain_list() != nullptr || v.tuple()) {
    for (const Value& item : *v.list()) items.push_back(WithSortedKeys(item, depth + 1));
    return v.tuple() ? Value::NewTuple(std::move(items)) : Value::NewList(std::move(items));
  }
  if (v.dict() == nullptr || v.dict()->is_namespace) return v;
  auto sorted = std::make_shared<Dict>();
  for (const auto& [key, item] : v.dict()->items)
    sorted->items.emplace_back(key, WithSortedKeys(item, depth + 1));
  std::stable_sort(sorted->items.begin(), sorted->items.end(),
                   [](const auto& a, const auto& b) { return Compare(a.first, b.first).value_or(0) < 0; });
  return Value(sorted);
}

Value PrettyPrintFilter(Rendering& in, const Value& v, const Arguments&) {
  constexpr size_t kLineMax = 80;
  const std::string text = Repr(WithSortedKeys(v));
  if (!in.ChargeText(text.size())) return {};
  if (CodePointOffsets(text).size() - 1 > kLineMax)
    return in.Fail(
        fmt::format("pprint of more than one line of {} characters is not supported; use tojson", kLineMax));
  return Value::Text(text, /*trusted=*/false);
}

Value AttrFilter(Rendering& in, const Value& v, const Arguments& args) {
  const std::string name = args.Text(0, "name", "");
  const bool mapping = v.dict() != nullptr && !v.dict()->is_namespace;
  if (mapping && !IsMethod(v, name)) return Undefined{name};
  return Attribute(in, v, name);
}

template <const char* const* name>
Value MethodFilter(Rendering& in, const Value& v, const Arguments& args) {
  Arguments rest = args;
  std::erase_if(rest.positional, [](const Value& argument) { return argument.none(); });
  return RunStringMethod(in, *name, ToStr(v), rest);
}

constexpr const char* kUpper = "upper";
constexpr const char* kLower = "lower";
constexpr const char* kCapitalize = "capitalize";
constexpr const char* kStrip = "strip";

Value CenterFilter(Rendering& in, const Value& v, const Arguments& args) {
  NUMOE_DCHECK_LE(args.positional.size(), 1u);
  Arguments width;
  width.positional = {args.Get(0, "width") == nullptr ? Value(int64_t{80}) : *args.Get(0, "width")};
  return RunStringMethod(in, "center", ToStr(v), width);
}

}  // namespace

const FilterTable& TextFilters() {
  static const FilterTable filters = {
      {"tojson", {ToJsonFilter, "ensure_ascii,indent,separators,sort_keys"}},
      {"from_json", {FromJsonFilter, ""}},
      {"join", {JoinFilter, "d,attribute"}},
      {"replace", {ReplaceFilter, "old,new;count"}},
      {"default", {DefaultFilter, "default_value,boolean"}},
      {"d", {DefaultFilter, "default_value,boolean"}},
      {"indent", {IndentFilter, "width,first,blank"}},
      {"title", {TitleFilter, ""}},
      {"truncate", {TruncateFilter, "length,killwords,end,leeway"}},
      {"wordwrap", {WordWrapFilter, "width,break_long_words,wrapstring,break_on_hyphens"}},
      {"wordcount", {WordCountFilter, ""}},
      {"format", {FormatFilter, "*"}},
      {"pprint", {PrettyPrintFilter, ""}},
      {"attr", {AttrFilter, "name;"}},
      {"upper", {MethodFilter<&kUpper>, ""}},
      {"lower", {MethodFilter<&kLower>, ""}},
      {"capitalize", {MethodFilter<&kCapitalize>, ""}},
      {"trim", {MethodFilter<&kStrip>, "chars"}},
      {"center", {CenterFilter, "width"}},
      {"string", {[](Rendering&, const Value& v, const Arguments&) { return Value(ToStr(v)); }, ""}},
  };
  return filters;
}

}  // namespace numoe::text::jinja
