#include "coordinator/text/chat/jinja_repr.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_ast.h"
#include "coordinator/text/chat/jinja_objects.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

class ReprWriter {
 public:
  std::string Write(const Value& value) {
    Append(value, 0);
    return std::move(out_);
  }

 private:
  void Append(const Value& value, int depth) {
    if (out_.size() > limits::kTemplateOutputBytesMax) return;
    if (value.list() != nullptr && depth > limits::kTemplateDepthMax) {
      out_ += "[...]";
    } else if (const Str* str = value.str()) {
      const std::string quoted = StringRepr(str->text());
      out_ += str->markup() ? "Markup(" + quoted + ")" : quoted;
    } else if (value.undefined()) {
      out_ += "Undefined";
    } else if (value.list() != nullptr) {
      AppendList(value, depth);
    } else if (const Dict* dict = value.dict()) {
      AppendDict(*dict, depth);
    } else {
      out_ += ToStr(value).text();
    }
  }

  void AppendItems(const List& items, int depth) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      Append(items[i], depth + 1);
    }
  }

  void AppendList(const Value& value, int depth) {
    NUMOE_DCHECK(value.list() != nullptr);
    static constexpr std::pair<std::string_view, std::string_view> kBrackets[] = {
        {"(", ")"}, {"", ""}, {"dict_keys([", "])"}, {"dict_values([", "])"}, {"dict_items([", "])"},
        {"", ""}};
    const Sequence* sequence = value.sequence();
    if (sequence != nullptr && !sequence->label.empty() && !value.tuple()) {
      out_ += sequence->label;
      return;
    }
    if (value.IsSequence(Sequence::Kind::kGenerator)) {
      out_ += "<generator object>";
      return;
    }
    const auto [open, close] = sequence == nullptr ? std::pair<std::string_view, std::string_view>("[", "]")
                                                   : kBrackets[static_cast<size_t>(sequence->kind)];
    out_ += open;
    AppendItems(*value.list(), depth);
    if (value.tuple() && value.list()->size() == 1) out_ += ",";
    out_ += close;
  }

  void AppendDict(const Dict& dict, int depth) {
    if (depth > limits::kTemplateDepthMax) {
      out_ += "{...}";
      return;
    }
    out_ += dict.is_namespace ? "<Namespace {" : "{";
    for (size_t i = 0; i < dict.items.size(); ++i) {
      if (i > 0) out_ += ", ";
      Append(dict.items[i].first, depth + 1);
      out_ += ": ";
      Append(dict.items[i].second, depth + 1);
    }
    out_ += dict.is_namespace ? "}>" : "}";
  }

  std::string out_;
};

std::string ObjectStr(const Object& object) {
  if (object.kind == Object::Kind::kLoop)
    return fmt::format("<LoopContext {}/{}>", object.position + 1, object.items.size());
  return fmt::format("<{}>", object.KindName());
}

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string scientific(buffer, end);  // d.ddde+XX with the fewest digits that identify the value
  const size_t e = scientific.find('e');
  NUMOE_CHECK_NE(e, std::string::npos) << scientific;
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return scientific;  // Python also writes the exponent with two digits
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string text(buffer, fixed);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string StringRepr(const std::string& text, bool ascii) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  ForEachCodePoint(text, [&](int32_t point, std::string_view bytes) {
    NUMOE_DCHECK(!bytes.empty());
    if (bytes[0] == quote || bytes[0] == '\\') {
      out.append("\\").append(bytes);
    } else if (point == '\n') {
      out += "\\n";
    } else if (point == '\r') {
      out += "\\r";
    } else if (point == '\t') {
      out += "\\t";
    } else if (IsPrintable(point) && (!ascii || point < 0x80)) {
      out.append(bytes);
    } else {
      out += point < 0x100     ? fmt::format("\\x{:02x}", point)
             : point < 0x10000 ? fmt::format("\\u{:04x}", point)
                               : fmt::format("\\U{:08x}", point);
    }
  });
  return out + quote;
}

std::string Repr(const Value& value) { return ReprWriter().Write(value); }

Str ToStr(const Value& value) {
  if (const Str* s = value.str()) return *s;
  if (value.undefined()) return Str();
  if (value.none()) return Str("None", true);
  if (const auto* b = value.If<bool>()) return Str(*b ? "True" : "False", true);
  if (const auto* i = value.If<int64_t>()) return Str(std::to_string(*i), true);
  if (const auto* d = value.If<double>()) return Str(FloatRepr(*d), true);
  if (value.list() != nullptr || value.dict() != nullptr) return Str(Repr(value), /*trusted=*/false);
  if (const Object* object = value.object()) return Str(ObjectStr(*object), true);
  if (const auto* macro = value.If<Macro>()) {
    return Str(macro->node->text.empty() ? "<Macro anonymous>"
                                         : fmt::format("<Macro {}>", StringRepr(macro->node->text)),
               true);
  }
  return Str("<function>", true);
}

}  // namespace numoe::text::jinja
