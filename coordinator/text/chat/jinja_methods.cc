// Methods of strings, lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_builtins.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

// Without bytes of `chars`: those that templates name are ASCII.
Str StripBytes(const Str& s, const std::string& chars, bool left, bool right) {
  size_t begin = 0;
  size_t end = s.size();
  while (left && begin < end && chars.find(s.text()[begin]) != std::string::npos) ++begin;
  while (right && end > begin && chars.find(s.text()[end - 1]) != std::string::npos) --end;
  return s.Substr(begin, end - begin);
}

Str Strip(const Str& s, const Value* chars, bool left, bool right) {
  if (chars != nullptr && !chars->none()) return StripBytes(s, ToStr(*chars).text(), left, right);
  const std::string_view stripped = StripSpace(s.text(), left, right);
  return s.Substr(static_cast<size_t>(stripped.data() - s.text().data()), stripped.size());
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

Value Split(Rendering& in, const Str& s, const Arguments& args, bool from_right) {
  const Value* separator = args.Get(0, "sep");
  const Value* limit = args.Get(1, "maxsplit");
  const int64_t max = limit != nullptr ? AsInt(*limit).value_or(-1) : -1;
  if (separator == nullptr || separator->none()) return SplitSpaces(s, max);
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
  const Str to = ToStr(*new_value);
  const Value* limit = args.Get(2, "count");
  int64_t left = limit != nullptr && AsInt(*limit) ? *AsInt(*limit) : INT64_MAX;
  if (left < 0) left = INT64_MAX;
  Str out;
  size_t begin = 0;
  if (from.empty()) {  // Python puts the new text between all characters
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

bool AffixMatches(const std::string& text, const Value& affix, bool start) {
  if (const List* options = affix.list()) {
    return std::any_of(options->begin(), options->end(),
                       [&](const Value& o) { return AffixMatches(text, o, start); });
  }
  const std::string part = ToStr(affix).text();
  return text.size() >= part.size() &&
         text.compare(start ? 0 : text.size() - part.size(), part.size(), part) == 0;
}

int64_t CodePointIndex(const std::string& text, size_t byte) {
  NUMOE_DCHECK_LE(byte, text.size());
  return static_cast<int64_t>(CodePointOffsets(std::string_view(text).substr(0, byte)).size()) - 1;
}

Value StringFind(const Str& s, const Arguments& args, bool from_right) {
  const std::string part = args.positional.empty() ? "" : ToStr(args.positional[0]).text();
  const size_t at = from_right ? s.text().rfind(part) : s.text().find(part);
  return Value(at == std::string::npos ? int64_t{-1} : CodePointIndex(s.text(), at));
}

Value StringCount(const Str& s, const Arguments& args) {
  const std::string part = args.positional.empty() ? "" : ToStr(args.positional[0]).text();
  if (part.empty()) return Value(static_cast<int64_t>(CodePointOffsets(s.text()).size()));
  int64_t count = 0;
  for (size_t at = s.text().find(part); at != std::string::npos; at = s.text().find(part, at + part.size()))
    ++count;
  return Value(count);
}

Value SplitLines(const Str& s) {
  List lines;
  size_t begin = 0;
  while (begin < s.size()) {
    const size_t end = std::min(s.text().find('\n', begin), s.size());
    lines.emplace_back(StripBytes(s.Substr(begin, end - begin), "\r", false, true));
    begin = end + 1;
  }
  return Value::NewList(std::move(lines));
}

// "{}", "{0}", "{name}" without format specifications.
Value Format(Rendering& in, const Str& s, const Arguments& args) {
  Str out;
  size_t next = 0;
  const std::string& text = s.text();
  for (size_t i = 0; i < text.size();) {
    if ((text[i] == '{' || text[i] == '}') && i + 1 < text.size() && text[i + 1] == text[i]) {
      out.Append(s.Substr(i, 1));
      i += 2;
    } else if (text[i] == '{') {
      const size_t close = text.find('}', i);
      if (close == std::string::npos) return in.Fail("format: '{' is not closed");
      const std::string field = text.substr(i + 1, close - i - 1);
      const bool digits =
          !field.empty() && field.size() < 6 && field.find_first_not_of("0123456789") == std::string::npos;
      const Value* value = field.empty() ? args.Get(next++, "")
                           : digits      ? args.Get(std::stoul(field), "")
                                         : args.Get(SIZE_MAX, field);
      if (value == nullptr) return in.Fail(fmt::format("format: no argument for {{{}}}", field));
      out.Append(ToStr(*value));
      i = close + 1;
    } else {
      out.Append(s.Substr(i++, 1));
    }
  }
  return Value(std::move(out));
}

Value Join(Rendering& in, const Str& s, const Arguments& args) {
  Str out;
  bool first = true;
  if (args.positional.empty()) return in.Fail("join: expected a list");
  for (const Value& item : Iterate(in, args.positional[0])) {
    if (item.str() == nullptr)
      return in.Fail(fmt::format("join: expected strings, found {}", TypeName(item)));
    if (!first) out.Append(s);
    first = false;
    out.Append(*item.str());
    if (!in.ChargeText(s.size() + item.str()->size())) return {};
  }
  return Value(std::move(out));
}

Str Mapped(const Str& s, std::string (*map)(std::string_view)) { return Str(map(s.text()), s.AllTrusted()); }

Value StringMethod(Rendering& in, const std::string& name, const Str& s, const Arguments& args) {
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return Value(Strip(s, args.Get(0, "chars"), name != "rstrip", name != "lstrip"));
  }
  if (name == "split" || name == "rsplit") return Split(in, s, args, name == "rsplit");
  if (name == "splitlines") return SplitLines(s);
  if (name == "replace") return Replace(in, s, args);
  if (name == "startswith" || name == "endswith") {
    if (args.positional.empty()) return in.Fail(name + ": expected text");
    return Value(AffixMatches(s.text(), args.positional[0], name == "startswith"));
  }
  if (name == "upper") return Value(Mapped(s, Upper));
  if (name == "lower") return Value(Mapped(s, Lower));
  if (name == "title") return Value(Mapped(s, Title));
  if (name == "capitalize") return Value(Mapped(s, Capitalize));
  if (name == "find" || name == "rfind") return StringFind(s, args, name == "rfind");
  if (name == "count") return StringCount(s, args);
  if (name == "join") return Join(in, s, args);
  if (name == "format") return Format(in, s, args);
  if (name == "isdigit")
    return Value(!s.empty() && s.text().find_first_not_of("0123456789") == std::string::npos);
  if (name == "islower") return Value(IsLower(s.text()));
  NUMOE_DCHECK_EQ(name, "isupper");
  return Value(IsUpper(s.text()));
}

Value ListMethod(Rendering& in, const std::string& name, const std::shared_ptr<List>& list,
                 const Arguments& args) {
  if (name == "pop") {
    if (list->empty()) return in.Fail("pop from an empty list");
    const int64_t size = static_cast<int64_t>(list->size());
    int64_t at = args.positional.empty() ? size - 1 : AsInt(args.positional[0]).value_or(size);
    if (at < 0) at += size;
    if (at < 0 || at >= size) return in.Fail("pop: index out of range");
    Value value = (*list)[at];
    list->erase(list->begin() + at);
    return value;
  }
  if (args.positional.empty()) return in.Fail(name + ": expected an argument");
  const Value& argument = args.positional[0];
  if (name == "append") {
    if (in.Charge(1) && MayHold(in, list.get(), argument)) list->push_back(argument);
    return None{};
  }
  if (name == "extend") {
    const List items = Iterate(in, argument);
    for (const Value& item : items) {
      if (in.Charge(1) && MayHold(in, list.get(), item)) list->push_back(item);
    }
    return None{};
  }
  if (name == "count")
    return Value(static_cast<int64_t>(
        std::count_if(list->begin(), list->end(), [&](const Value& v) { return Equal(v, argument); })));
  NUMOE_DCHECK_EQ(name, "index");
  for (size_t i = 0; i < list->size(); ++i) {
    if (Equal((*list)[i], argument)) return Value(static_cast<int64_t>(i));
  }
  return in.Fail("index: value is not in the list");
}

Value DictMethod(Rendering& in, const std::string& name, const Dict& dict, const Arguments& args) {
  if (name == "get") {
    if (args.positional.empty()) return in.Fail("get: expected a key");
    if (const Value* value = dict.Find(args.positional[0])) return *value;
    return args.positional.size() > 1 ? args.positional[1] : Value(None{});
  }
  if (name == "copy") return Value(std::make_shared<Dict>(dict));
  NUMOE_DCHECK(name == "keys" || name == "values" || name == "items") << name;
  List items;
  for (const auto& [key, value] : dict.items) {
    items.push_back(name == "keys" ? key : name == "values" ? value : Value::NewList({key, value}));
  }
  return Value::NewList(std::move(items));
}

}  // namespace

bool IsMethod(const Value& self, const std::string& name) {
  static const std::set<std::string> kString = {
      "strip",      "lstrip",   "rstrip", "split",  "rsplit",  "splitlines", "replace",
      "startswith", "endswith", "upper",  "lower",  "title",   "capitalize", "find",
      "rfind",      "count",    "join",   "format", "isdigit", "islower",    "isupper"};
  static const std::set<std::string> kList = {"append", "extend", "pop", "count", "index"};
  static const std::set<std::string> kDict = {"get", "items", "keys", "values", "copy"};
  if (self.str() != nullptr) return kString.count(name) > 0;
  if (self.list() != nullptr) return kList.count(name) > 0;
  return self.dict() != nullptr && !self.dict()->is_namespace && kDict.count(name) > 0;
}

Value RunMethod(Rendering& in, const std::string& name, const Value& self, const Arguments& args) {
  NUMOE_CHECK(IsMethod(self, name)) << TypeName(self) << " has no " << name;
  if (self.str() != nullptr) return StringMethod(in, name, *self.str(), args);
  if (self.list() != nullptr) return ListMethod(in, name, std::get<std::shared_ptr<List>>(self.data), args);
  return DictMethod(in, name, *self.dict(), args);
}

}  // namespace numoe::text::jinja
