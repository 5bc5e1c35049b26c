#include "coordinator/text/chat/jinja_string_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_format.h"
#include "coordinator/text/chat/jinja_markup.h"
#include "coordinator/text/chat/jinja_repr.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

using Method = Value (*)(Rendering&, const Str&, const Arguments&);
struct SignedMethod {
  Method run;
  std::string_view signature;
};

// Returns `s` without the characters of `chars` at its ends.
Str StripCharacters(const Str& s, const std::string& chars, bool left, bool right) {
  std::vector<std::string_view> letters;
  ForEachCodePoint(chars, [&](int32_t, std::string_view letter) { letters.push_back(letter); });
  const std::vector<size_t> offsets = CodePointOffsets(s.text());
  NUMOE_DCHECK_EQ(offsets.back(), s.size());
  const auto strips = [&](size_t i) {
    const std::string_view letter =
        std::string_view(s.text()).substr(offsets[i], offsets[i + 1] - offsets[i]);
    return std::find(letters.begin(), letters.end(), letter) != letters.end();
  };
  size_t begin = 0, end = offsets.size() - 1;
  while (left && begin < end && strips(begin)) ++begin;
  while (right && end > begin && strips(end - 1)) --end;
  return s.Substr(offsets[begin], offsets[end] - offsets[begin]);
}

Value Strip(Rendering& in, const Str& s, const Arguments& args, bool left, bool right) {
  const Value* chars = args.Get(0, "chars");
  if (chars != nullptr && !chars->none()) {
    if (chars->str() == nullptr)
      return in.Fail(fmt::format("strip: expected text, found {}", TypeName(*chars)));
    return Value(StripCharacters(s, chars->str()->text(), left, right));
  }
  const std::string_view stripped = StripSpace(s.text(), left, right);
  return Value(s.Substr(static_cast<size_t>(stripped.data() - s.text().data()), stripped.size()));
}

Value SplitSpaces(const Str& s, int64_t max) {
  const std::string_view text = s.text();
  const auto skip = [&](size_t at, bool space) {
    while (at < text.size()) {
      const size_t length = SpaceLength(text.substr(at));
      if ((length > 0) != space) break;
      at += std::max<size_t>(length, 1);
    }
    return at;
  };
  List parts;
  for (size_t at = skip(0, true); at < text.size();) {
    if (max >= 0 && static_cast<int64_t>(parts.size()) == max) {
      parts.emplace_back(s.Substr(at, std::string::npos));
      break;
    }
    const size_t end = skip(at, false);
    parts.emplace_back(s.Substr(at, end - at));
    at = skip(end, true);
  }
  return Value::NewList(std::move(parts));
}

// Splits at white space from the right; the words beyond `max` remain one text, as they were.
Value SplitSpacesFromRight(const Str& s, int64_t max) {
  const Value all = SplitSpaces(s, -1);
  const List& words = *all.list();
  const auto count = static_cast<int64_t>(words.size());
  if (count <= max + 1) return all;
  std::string_view rest = StripSpace(s.text(), false, true);
  for (int64_t i = count - 1; i >= count - max; --i) {
    rest.remove_suffix(words[static_cast<size_t>(i)].str()->size());
    rest = StripSpace(rest, false, true);
  }
  List parts;
  const size_t begin = rest.size() - StripSpace(rest, true, false).size();
  NUMOE_DCHECK_LE(begin, rest.size());
  parts.emplace_back(s.Substr(begin, rest.size() - begin));
  parts.insert(parts.end(), words.end() - max, words.end());
  return Value::NewList(std::move(parts));
}

Value Split(Rendering& in, const Str& s, const Arguments& args, bool from_right) {
  const Value* separator = args.Get(0, "sep");
  const Value* limit = args.Get(1, "maxsplit");
  const int64_t max = limit != nullptr ? AsInt(*limit).value_or(-1) : -1;
  if (separator == nullptr || separator->none())
    return from_right && max >= 0 ? SplitSpacesFromRight(s, max) : SplitSpaces(s, max);
  const std::string sep = ToStr(*separator).text();
  if (sep.empty()) return in.Fail("split: empty separator");
  List parts;
  size_t begin = 0;
  while (!from_right && (max < 0 || static_cast<int64_t>(parts.size()) < max)) {
    const size_t at = s.text().find(sep, begin);
    if (at == std::string::npos) break;
    parts.emplace_back(s.Substr(begin, at - begin));
    begin = at + sep.size();
  }
  if (!from_right) {
    parts.emplace_back(s.Substr(begin, std::string::npos));
    return Value::NewList(std::move(parts));
  }
  size_t end = s.size();
  while ((max < 0 || static_cast<int64_t>(parts.size()) < max) && end >= sep.size()) {
    const size_t at = s.text().rfind(sep, end - sep.size());
    if (at == std::string::npos) break;
    parts.emplace_back(s.Substr(at + sep.size(), end - at - sep.size()));
    end = at;
  }
  parts.emplace_back(s.Substr(0, end));
  std::reverse(parts.begin(), parts.end());
  return Value::NewList(std::move(parts));
}

Value Replace(Rendering& in, const Str& s, const Arguments& args) {
  const Value* old_value = args.Get(0, "old");
  const Value* new_value = args.Get(1, "new");
  if (old_value == nullptr || new_value == nullptr)
    return in.Fail("replace: expected the old and the new text");
  const std::string from = ToStr(*old_value).text();
  const Str to = s.markup() ? Escaped(ToStr(*new_value)) : ToStr(*new_value);
  const Value* limit = args.Get(2, "count");
  int64_t left = limit != nullptr && AsInt(*limit) ? *AsInt(*limit) : INT64_MAX;
  if (left < 0) left = INT64_MAX;
  Str out = Str().AsMarkup(s.markup());
  size_t begin = 0;
  if (from.empty()) {  // Python inserts the new text between all characters
    const std::vector<size_t> offsets = CodePointOffsets(s.text());
    for (size_t i = 0; i < offsets.size() && in.ChargeText(to.size()); ++i) {
      if (left-- > 0) out.Append(to);
      if (i + 1 < offsets.size()) out.Append(s.Substr(offsets[i], offsets[i + 1] - offsets[i]));
    }
    return Value(std::move(out));
  }
  while (left-- > 0 && in.ChargeText(to.size())) {
    const size_t at = s.text().find(from, begin);
    if (at == std::string::npos) break;
    out.Append(s.Substr(begin, at - begin));
    out.Append(to);
    begin = at + from.size();
  }
  out.Append(s.Substr(begin, std::string::npos));
  return Value(std::move(out));
}

// The start and end arguments of find, count and startswith, in bytes.
struct Window {
  size_t begin = 0, end = 0;
  bool valid = false;  // `begin` is at or before `end`
};

Window WindowOf(const Str& s, const Arguments& args, size_t first) {
  const std::vector<size_t> offsets = CodePointOffsets(s.text());
  const auto size = static_cast<int64_t>(offsets.size()) - 1;
  int64_t bounds[2] = {0, size};
  for (size_t i = 0; i < 2; ++i) {
    const Value* given = args.Get(first + i, "");
    const std::optional<int64_t> bound = given == nullptr ? std::nullopt : AsInt(*given);
    if (bound) bounds[i] = *bound < 0 ? std::max<int64_t>(*bound + size, 0) : *bound;
  }
  bounds[1] = std::min(bounds[1], size);
  if (bounds[0] > bounds[1]) return {};
  NUMOE_DCHECK(bounds[0] >= 0 && bounds[1] <= size);
  return {offsets[static_cast<size_t>(bounds[0])], offsets[static_cast<size_t>(bounds[1])], true};
}

std::optional<std::string> TextArgument(Rendering& in, const Arguments& args, const char* method) {
  const Value* part = args.Get(0, "");
  if (part != nullptr && part->str() != nullptr) return part->str()->text();
  in.Fail(fmt::format("{}: expected text, found {}", method, part == nullptr ? "nothing" : TypeName(*part)));
  return std::nullopt;
}

Value Find(Rendering& in, const Str& s, const Arguments& args, bool from_right, bool must) {
  const std::optional<std::string> part = TextArgument(in, args, "find");
  if (!part) return {};
  const Window window = WindowOf(s, args, 1);
  const std::string_view text = std::string_view(s.text()).substr(window.begin, window.end - window.begin);
  const size_t at = !window.valid ? std::string_view::npos
                    : from_right  ? text.rfind(*part)
                                  : text.find(*part);
  if (at == std::string_view::npos)
    return must ? in.Fail("index: the text is not found") : Value(int64_t{-1});
  const std::string_view before = std::string_view(s.text()).substr(0, window.begin + at);
  return Value(static_cast<int64_t>(CodePointOffsets(before).size()) - 1);
}

Value Count(Rendering& in, const Str& s, const Arguments& args) {
  const std::optional<std::string> part = TextArgument(in, args, "count");
  if (!part) return {};
  const Window window = WindowOf(s, args, 1);
  if (!window.valid) return int64_t{0};
  const std::string_view text = std::string_view(s.text()).substr(window.begin, window.end - window.begin);
  if (part->empty()) return static_cast<int64_t>(CodePointOffsets(text).size());
  int64_t count = 0;
  for (size_t at = text.find(*part); at != std::string_view::npos; at = text.find(*part, at + part->size()))
    ++count;
  return count;
}

Value HasAffix(Rendering& in, const Str& s, const Arguments& args, bool start) {
  const Window window = WindowOf(s, args, 1);
  const std::string_view text = std::string_view(s.text()).substr(window.begin, window.end - window.begin);
  const Value* affix = args.Get(0, "");
  List single;
  if (affix != nullptr && affix->str() != nullptr) single.push_back(*affix);
  const List& options = affix != nullptr && affix->tuple() ? *affix->list() : single;
  if (affix == nullptr || (affix->str() == nullptr && !affix->tuple()))
    return in.Fail("startswith and endswith: expected text or a tuple of texts");
  for (const Value& option : options) {
    if (option.str() == nullptr) return in.Fail("startswith and endswith: expected text or a tuple of texts");
    const std::string& part = option.str()->text();
    if (window.valid && text.size() >= part.size() &&
        text.substr(start ? 0 : text.size() - part.size(), part.size()) == part)
      return true;
  }
  return false;
}

Value RemoveAffix(Rendering& in, const Str& s, const Arguments& args, bool start) {
  const std::optional<std::string> part = TextArgument(in, args, start ? "removeprefix" : "removesuffix");
  if (!part || part->size() > s.size()) return part ? Value(s) : Value();
  const size_t rest = s.size() - part->size();
  if (s.text().compare(start ? 0 : rest, part->size(), *part) != 0) return s;
  return s.Substr(start ? part->size() : 0, rest);
}

Value Partition(Rendering& in, const Str& s, const Arguments& args, bool from_right) {
  const std::optional<std::string> separator = TextArgument(in, args, "partition");
  if (!separator) return {};
  if (separator->empty()) return in.Fail("partition: empty separator");
  const size_t at = from_right ? s.text().rfind(*separator) : s.text().find(*separator);
  const Str none = Str().AsMarkup(s.markup());
  if (at == std::string::npos) return Value::NewTuple(from_right ? List{none, none, s} : List{s, none, none});
  const Str found = args.positional[0].str()->AsMarkup(s.markup());
  return Value::NewTuple({s.Substr(0, at), found, s.Substr(at + separator->size(), std::string::npos)});
}

Value Join(Rendering& in, const Str& s, const Arguments& args) {
  Str out = Str().AsMarkup(s.markup());
  bool first = true;
  for (const Value& item : Iterate(in, *args.Get(0, "iterable"))) {
    if (item.str() == nullptr && !s.markup())
      return in.Fail(fmt::format("join: expected strings, found {}", TypeName(item)));
    if (!first) out.Append(s);
    first = false;
    const Str text = s.markup() ? Escaped(ToStr(item)) : *item.str();
    out.Append(text);
    if (!in.ChargeText(s.size() + text.size())) return {};
  }
  return Value(std::move(out));
}

Value Justify(Rendering& in, const Str& s, const Arguments& args, char align) {
  const std::optional<int64_t> width = AsInt(*args.Get(0, "width"));
  const Value* fill = args.Get(1, "fillchar");
  if (!width) return in.Fail("center, ljust and rjust: expected an integer as width");
  if (fill != nullptr && fill->str() == nullptr)
    return in.Fail("center, ljust and rjust: expected one character to fill with");
  const Str with = fill == nullptr ? Str(" ", true) : s.markup() ? Escaped(*fill->str()) : *fill->str();
  if (CodePointOffsets(with.text()).size() != 2)
    return in.Fail("center, ljust and rjust: expected one character to fill with");
  const int64_t missing = *width - static_cast<int64_t>(CodePointOffsets(s.text()).size()) + 1;
  // If the width is odd, Python's str.center puts the odd character to the left.
  if (align != '^' || missing <= 0) return Padded(in, s, *width, align, with);
  const int64_t right = missing - missing / 2 - (missing & *width & 1);
  NUMOE_DCHECK(right >= 0 && right <= missing) << right;
  return Padded(in, Padded(in, s, *width - right, '>', with), *width, '<', with);
}

Value ZeroFill(Rendering& in, const Str& s, const Arguments& args) {
  const std::optional<int64_t> width = AsInt(*args.Get(0, "width"));
  if (!width) return in.Fail("zfill: expected an integer");
  const bool sign = !s.empty() && (s.text()[0] == '-' || s.text()[0] == '+');
  Str out = s.Substr(0, sign ? 1 : 0);
  out.Append(
      Padded(in, s.Substr(sign ? 1 : 0, std::string::npos), *width - (sign ? 1 : 0), '>', Str("0", true)));
  return out;
}

Value ExpandTabs(Rendering& in, const Str& s, const Arguments& args) {
  const Value* given = args.Get(0, "tabsize");
  const int64_t size = given == nullptr ? 8 : AsInt(*given).value_or(8);
  Str out = Str().AsMarkup(s.markup());
  int64_t column = 0;
  const std::vector<size_t> offsets = CodePointOffsets(s.text());
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const char c = s.text()[offsets[i]];
    if (c != '\t') {
      out.Append(s.Substr(offsets[i], offsets[i + 1] - offsets[i]));
      column = c == '\n' || c == '\r' ? 0 : column + 1;
      continue;
    }
    const int64_t spaces = size > 0 ? size - column % size : 0;
    if (!in.Room(static_cast<size_t>(spaces)) || !in.Room(out.size())) return {};
    out.Append(Str(std::string(static_cast<size_t>(spaces), ' '), true));
    column += spaces;
  }
  return out;
}

Value FormatMap(Rendering& in, const Str& s, const Arguments& args) {
  Arguments fields;
  const Dict* dict = args.positional[0].dict();
  if (dict == nullptr) return in.Fail("format_map: expected a mapping");
  for (const auto& [key, value] : dict->items) {
    if (key.str() != nullptr) fields.keywords.emplace_back(key.str()->text(), value);
  }
  return FormatFields(in, s, fields);
}

template <std::string (*map)(std::string_view)>
Value Mapped(Rendering& in, const Str& s, const Arguments&) {
  if (!in.ChargeText(s.size())) return {};
  return Str(map(s.text()), s.AllTrusted()).AsMarkup(s.markup());
}

const std::map<std::string, SignedMethod>& Methods() {
  using R = Rendering;
  using A = Arguments;
  static const std::map<std::string, SignedMethod> methods = {
      {"strip", {[](R& in, const Str& s, const A& a) { return Strip(in, s, a, true, true); }, "chars"}},
      {"lstrip", {[](R& in, const Str& s, const A& a) { return Strip(in, s, a, true, false); }, "chars"}},
      {"rstrip", {[](R& in, const Str& s, const A& a) { return Strip(in, s, a, false, true); }, "chars"}},
      {"split", {[](R& in, const Str& s, const A& a) { return Split(in, s, a, false); }, "sep,maxsplit"}},
      {"rsplit", {[](R& in, const Str& s, const A& a) { return Split(in, s, a, true); }, "sep,maxsplit"}},
      {"splitlines",
       {[](R&, const Str& s, const A& a) {
          return Value::NewList(SplitLines(s, a.Flag(0, "keepends", false)));
        },
        "keepends"}},
      {"replace", {Replace, "old,new;count"}},
      {"startswith",
       {[](R& in, const Str& s, const A& a) { return HasAffix(in, s, a, true); }, "prefix;start,end"}},
      {"endswith",
       {[](R& in, const Str& s, const A& a) { return HasAffix(in, s, a, false); }, "suffix;start,end"}},
      {"removeprefix",
       {[](R& in, const Str& s, const A& a) { return RemoveAffix(in, s, a, true); }, "prefix;"}},
      {"removesuffix",
       {[](R& in, const Str& s, const A& a) { return RemoveAffix(in, s, a, false); }, "suffix;"}},
      {"partition", {[](R& in, const Str& s, const A& a) { return Partition(in, s, a, false); }, "sep;"}},
      {"rpartition", {[](R& in, const Str& s, const A& a) { return Partition(in, s, a, true); }, "sep;"}},
      {"find",
       {[](R& in, const Str& s, const A& a) { return Find(in, s, a, false, false); }, "sub;start,end"}},
      {"rfind",
       {[](R& in, const Str& s, const A& a) { return Find(in, s, a, true, false); }, "sub;start,end"}},
      {"index",
       {[](R& in, const Str& s, const A& a) { return Find(in, s, a, false, true); }, "sub;start,end"}},
      {"rindex",
       {[](R& in, const Str& s, const A& a) { return Find(in, s, a, true, true); }, "sub;start,end"}},
      {"count", {Count, "sub;start,end"}},
      {"join", {Join, "iterable;"}},
      {"center", {[](R& in, const Str& s, const A& a) { return Justify(in, s, a, '^'); }, "width;fillchar"}},
      {"ljust", {[](R& in, const Str& s, const A& a) { return Justify(in, s, a, '<'); }, "width;fillchar"}},
      {"rjust", {[](R& in, const Str& s, const A& a) { return Justify(in, s, a, '>'); }, "width;fillchar"}},
      {"zfill", {ZeroFill, "width;"}},
      {"expandtabs", {ExpandTabs, "tabsize"}},
      {"format", {FormatFields, "*"}},
      {"format_map", {FormatMap, "mapping;"}},
      {"upper", {Mapped<Upper>, ""}},
      {"lower", {Mapped<Lower>, ""}},
      {"title", {Mapped<Title>, ""}},
      {"capitalize", {Mapped<Capitalize>, ""}},
      {"swapcase", {Mapped<SwapCase>, ""}},
      {"casefold", {Mapped<CaseFold>, ""}},
  };
  return methods;
}

}  // namespace

List SplitLines(const Str& s, bool keep_ends) {
  List lines;
  const std::string& text = s.text();
  size_t begin = 0;
  const std::vector<size_t> offsets = CodePointOffsets(text);
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const size_t at = offsets[i];
    const std::string_view c = std::string_view(text).substr(at, offsets[i + 1] - at);
    const bool ends =
        (c.size() == 1 && std::string_view("\n\r\v\f\x1c\x1d\x1e").find(c[0]) != std::string_view::npos) ||
        c == "\u0085" || c == "\u2028" || c == "\u2029";
    if (!ends) continue;
    size_t next = offsets[i + 1];
    if (c == "\r" && next < text.size() && text[next] == '\n') {
      ++i;
      ++next;
    }
    NUMOE_DCHECK(begin <= at && at < next);
    lines.emplace_back(s.Substr(begin, (keep_ends ? next : at) - begin));
    begin = next;
  }
  if (begin < text.size()) lines.emplace_back(s.Substr(begin, std::string::npos));
  return lines;
}

bool IsStringMethod(const std::string& name) {
  return Methods().count(name) > 0 || IsKindOfText("", name).has_value();
}

Value RunStringMethod(Rendering& in, const std::string& name, const Str& self, const Arguments& args) {
  if (const std::optional<bool> is = IsKindOfText(self.text(), name))
    return TakesArguments(in, name, "", args) ? Value(*is) : Value();
  const auto method = Methods().find(name);
  NUMOE_CHECK(method != Methods().end()) << name;
  if (!TakesArguments(in, name, method->second.signature, args)) return {};
  return method->second.run(in, self, args);
}

}  // namespace numoe::text::jinja
