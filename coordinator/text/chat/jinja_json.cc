#include "coordinator/text/chat/jinja_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_repr.h"

namespace numoe::text::jinja {
namespace {

constexpr int kJsonDepthMax = 100;

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
    const bool list = value.plain_list() != nullptr || value.tuple();
    const bool dict = value.dict() != nullptr && !value.dict()->is_namespace;
    const bool scalar = value.none() || value.number() || value.str() != nullptr;
    if ((!list && !dict && !scalar) || depth > kJsonDepthMax || out.size() > limits::kTemplateOutputBytesMax)
      return false;
    if (value.none()) {
      out += "null";
    } else if (const auto* b = value.If<bool>()) {
      out += *b ? "true" : "false";
    } else if (const auto* d = value.If<double>()) {
      out += std::isnan(*d) ? "NaN" : std::isinf(*d) ? (*d < 0 ? "-Infinity" : "Infinity") : FloatRepr(*d);
    } else if (const Str* s = value.str()) {
      JsonString(s->text(), style_.ensure_ascii, out);
    } else if (list) {
      return WriteItems(value.list()->size(), "[]", depth, out,
                        [&](size_t i) { return Write((*value.list())[i], depth + 1, out); });
    } else if (dict) {
      return WriteDict(*value.dict(), depth, out);
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
      } else if (key.list() != nullptr || key.object() != nullptr) {
        return false;
      } else if (!Write(key, depth + 1, name)) {  // json.dumps writes other keys as their JSON
        return false;
      }
      JsonString(name, style_.ensure_ascii, out);
      out += style_.key_separator;
      return Write(value, depth + 1, out);
    });
  }
  void NewLine(int depth, std::string& out) const {
    if (!style_.indent) return;
    out += '\n';
    for (int i = 0; i < depth; ++i) out += *style_.indent;
  }

  const JsonStyle& style_;
};

}  // namespace

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

std::optional<std::string> ToJson(const Value& value, const JsonStyle& style) {
  std::string out;
  if (!JsonWriter(style).Write(value, 0, out)) return std::nullopt;
  return out;
}

}  // namespace numoe::text::jinja
