#include "coordinator/text/chat/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "common/base/check.h"

namespace numoe::text::jinja {

Str::Str(std::string text, bool trusted) : text_(std::move(text)) { AddRun(text_.size(), trusted); }

void Str::AddRun(size_t length, bool trusted) {
  if (length == 0) return;
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().length += length;
  } else {
    runs_.push_back({length, trusted});
  }
}

void Str::Append(const Str& other) {
  text_ += other.text_;
  for (const Run& run : std::vector<Run>(other.runs_)) AddRun(run.length, run.trusted);
}

Str Str::Substr(size_t begin, size_t length) const {
  Str out;
  begin = std::min(begin, text_.size());
  length = std::min(length, text_.size() - begin);
  out.text_ = text_.substr(begin, length);
  size_t at = 0;
  for (const Run& run : runs_) {
    const size_t from = std::max(at, begin);
    const size_t to = std::min(at + run.length, begin + length);
    if (from < to) out.AddRun(to - from, run.trusted);
    at += run.length;
  }
  return out;
}

bool Str::AllTrusted() const {
  return std::all_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.trusted; });
}

std::vector<TextSegment> Str::Segments() const {
  std::vector<TextSegment> segments;
  size_t at = 0;
  for (const Run& run : runs_) {
    segments.push_back({text_.substr(at, run.length), run.trusted});
    at += run.length;
  }
  return segments;
}

const List* Value::list() const {
  const auto* p = std::get_if<std::shared_ptr<List>>(&data);
  return p == nullptr ? nullptr : p->get();
}
const Dict* Value::dict() const {
  const auto* p = std::get_if<std::shared_ptr<Dict>>(&data);
  return p == nullptr ? nullptr : p->get();
}
bool Value::number() const {
  return std::holds_alternative<bool>(data) || std::holds_alternative<int64_t>(data) ||
         std::holds_alternative<double>(data);
}

const Value* Dict::Find(const Value& key) const {
  for (const auto& [k, v] : items) {
    if (Equal(k, key)) return &v;
  }
  return nullptr;
}
const Value* Dict::FindName(std::string_view key) const {
  for (const auto& [k, v] : items) {
    if (k.str() != nullptr && k.str()->text() == key) return &v;
  }
  return nullptr;
}
void Dict::Set(const Value& key, Value value) {
  for (auto& [k, v] : items) {
    if (Equal(k, key)) {
      v = std::move(value);
      return;
    }
  }
  items.emplace_back(key, std::move(value));
}

Value FromJson(const nlohmann::ordered_json& json) {
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return Value(json.get<double>());
      return Value(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_float:
      return Value(json.get<double>());
    case nlohmann::ordered_json::value_t::string:
      return Value::Text(json.get<std::string>(), /*trusted=*/false);
    case nlohmann::ordered_json::value_t::array: {
      List items;
      for (const auto& item : json) items.push_back(FromJson(item));
      return Value::NewList(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, value] : json.items()) {
        dict->items.emplace_back(Value::Text(key, /*trusted=*/false), FromJson(value));
      }
      return Value(dict);
    }
    default:
      return Value(None{});
  }
}

bool Truthy(const Value& value) {
  if (value.undefined() || value.none()) return false;
  if (const auto* b = value.If<bool>()) return *b;
  if (const auto* i = value.If<int64_t>()) return *i != 0;
  if (const auto* d = value.If<double>()) return *d != 0;
  if (const Str* s = value.str()) return !s->empty();
  if (const List* l = value.list()) return !l->empty();
  if (const Dict* d = value.dict()) return d->is_namespace || !d->items.empty();
  return true;
}

std::optional<double> AsDouble(const Value& value) {
  if (const auto* d = value.If<double>()) return *d;
  if (const auto i = AsInt(value)) return static_cast<double>(*i);
  return std::nullopt;
}

std::optional<int64_t> AsInt(const Value& value) {
  if (const auto* i = value.If<int64_t>()) return *i;
  if (const auto* b = value.If<bool>()) return *b ? 1 : 0;
  return std::nullopt;
}

bool Equal(const Value& a, const Value& b) {
  if (a.number() && b.number()) {
    if (a.If<double>() == nullptr && b.If<double>() == nullptr) return *AsInt(a) == *AsInt(b);
    return *AsDouble(a) == *AsDouble(b);
  }
  if (a.data.index() != b.data.index()) return false;
  if (a.undefined() || a.none()) return true;
  if (a.str() != nullptr) return a.str()->text() == b.str()->text();
  if (a.list() != nullptr)
    return std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(), Equal);
  if (const Dict* d = a.dict()) {
    const Dict* e = b.dict();
    return d->items.size() == e->items.size() &&
           std::all_of(d->items.begin(), d->items.end(), [&](const auto& item) {
             const Value* other = e->Find(item.first);
             return other != nullptr && Equal(item.second, *other);
           });
  }
  return false;
}

std::optional<int> Compare(const Value& a, const Value& b) {
  if (a.number() && b.number()) {
    const double x = *AsDouble(a), y = *AsDouble(b);
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.str() != nullptr && b.str() != nullptr) {
    const int order = a.str()->text().compare(b.str()->text());  // UTF-8 order is code point order
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.list() != nullptr && b.list() != nullptr) {
    for (size_t i = 0; i < std::min(a.list()->size(), b.list()->size()); ++i) {
      const auto order = Compare((*a.list())[i], (*b.list())[i]);
      if (!order || *order != 0) return order;
    }
    return a.list()->size() < b.list()->size() ? -1 : a.list()->size() > b.list()->size() ? 1 : 0;
  }
  return std::nullopt;
}

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string scientific(buffer, end);  // d.ddde+XX with the fewest digits that round-trip
  const size_t e = scientific.find('e');
  NUMOE_CHECK_NE(e, std::string::npos) << scientific;
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return scientific;  // Python writes the exponent with two digits, too
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string text(buffer, fixed);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string StringRepr(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + quote;
}

std::string Repr(const Value& value) {
  if (value.str() != nullptr) return StringRepr(value.str()->text());
  if (value.undefined()) return "Undefined";
  if (const List* list = value.list()) {
    std::string out = "[";
    for (size_t i = 0; i < list->size(); ++i) out += (i > 0 ? ", " : "") + Repr((*list)[i]);
    return out + "]";
  }
  if (const Dict* dict = value.dict()) {
    std::string out = "{";
    for (size_t i = 0; i < dict->items.size(); ++i) {
      out += (i > 0 ? ", " : "") + Repr(dict->items[i].first) + ": " + Repr(dict->items[i].second);
    }
    return out + "}";
  }
  return ToStr(value).text();
}

Str ToStr(const Value& value) {
  if (const Str* s = value.str()) return *s;
  if (value.undefined()) return Str();
  if (value.none()) return Str("None", true);
  if (const auto* b = value.If<bool>()) return Str(*b ? "True" : "False", true);
  if (const auto* i = value.If<int64_t>()) return Str(std::to_string(*i), true);
  if (const auto* d = value.If<double>()) return Str(FloatRepr(*d), true);
  if (value.list() != nullptr || value.dict() != nullptr) return Str(Repr(value), /*trusted=*/false);
  return Str("<function>", true);
}

std::string_view TypeName(const Value& value) {
  static constexpr std::string_view kNames[] = {"undefined", "none", "boolean", "integer", "float",
                                                "string",    "list", "mapping", "macro",   "function"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(value.data)>);
  return kNames[value.data.index()];
}

namespace {

void JsonString(const std::string& text, bool ensure_ascii, std::string& out) {
  out += '"';
  const std::vector<size_t> offsets = CodePointOffsets(text);
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const std::string_view c = std::string_view(text).substr(offsets[i], offsets[i + 1] - offsets[i]);
    NUMOE_DCHECK(!c.empty());
    const auto first = static_cast<unsigned char>(c[0]);
    if (c == "\"" || c == "\\") {
      out.append("\\").append(c);
    } else if (c == "\n") {
      out += "\\n";
    } else if (c == "\r") {
      out += "\\r";
    } else if (c == "\t") {
      out += "\\t";
    } else if (c == "\b") {
      out += "\\b";
    } else if (c == "\f") {
      out += "\\f";
    } else if (first < 0x20) {
      out += fmt::format("\\u{:04x}", first);
    } else if (ensure_ascii && first >= 0x80) {
      uint32_t point = first & (0xFFu >> (c.size() + 1));
      for (size_t b = 1; b < c.size(); ++b) point = point << 6 | (static_cast<unsigned char>(c[b]) & 0x3Fu);
      if (point >= 0x10000) {
        point -= 0x10000;
        out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (point >> 10), 0xDC00 + (point & 0x3FF));
      } else {
        out += fmt::format("\\u{:04x}", point);
      }
    } else {
      out.append(c);
    }
  }
  out += '"';
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  bool Write(const Value& value, int depth, std::string& out) {
    if (value.undefined() || value.If<Macro>() != nullptr || value.If<Callable>() != nullptr || depth > 100)
      return false;
    if (value.none()) {
      out += "null";
    } else if (const auto* b = value.If<bool>()) {
      out += *b ? "true" : "false";
    } else if (const auto* d = value.If<double>()) {
      out += std::isnan(*d) ? "NaN" : std::isinf(*d) ? (*d < 0 ? "-Infinity" : "Infinity") : FloatRepr(*d);
    } else if (const Str* s = value.str()) {
      JsonString(s->text(), style_.ensure_ascii, out);
    } else if (const List* list = value.list()) {
      return WriteItems(list->size(), "[]", depth, out,
                        [&](size_t i) { return Write((*list)[i], depth + 1, out); });
    } else if (const Dict* dict = value.dict()) {
      return WriteDict(*dict, depth, out);
    } else {
      out += ToStr(value).text();
    }
    return true;
  }

 private:
  template <typename F>
  bool WriteItems(size_t count, const char* brackets, int depth, std::string& out, F item) {
    out += brackets[0];
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out += style_.item_separator;
      NewLine(depth + 1, out);
      if (!item(i)) return false;
    }
    if (count > 0) NewLine(depth, out);
    out += brackets[1];
    return true;
  }
  bool WriteDict(const Dict& dict, int depth, std::string& out) {
    std::vector<size_t> order(dict.items.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return Compare(dict.items[a].first, dict.items[b].first).value_or(0) < 0;
      });
    }
    return WriteItems(order.size(), "{}", depth, out, [&](size_t i) {
      const auto& [key, value] = dict.items[order[i]];
      std::string name;
      if (key.str() != nullptr) {
        name = key.str()->text();
      } else if (!Write(key, depth + 1, name)) {  // json.dumps spells other keys as their JSON
        return false;
      }
      JsonString(name, style_.ensure_ascii, out);
      out += style_.key_separator;
      return Write(value, depth + 1, out);
    });
  }
  void NewLine(int depth, std::string& out) const {
    if (style_.indent >= 0) out.append("\n").append(static_cast<size_t>(style_.indent * depth), ' ');
  }

  const JsonStyle& style_;
};

}  // namespace

std::optional<std::string> ToJson(const Value& value, const JsonStyle& style) {
  std::string out;
  if (!JsonWriter(style).Write(value, 0, out)) return std::nullopt;
  return out;
}

std::vector<size_t> CodePointOffsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) offsets.push_back(i);
  }
  offsets.push_back(text.size());
  return offsets;
}

}  // namespace numoe::text::jinja
