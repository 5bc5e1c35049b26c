// str.format, with replacement fields in braces.
#include <fmt/format.h>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_format.h"
#include "coordinator/text/chat/jinja_markup.h"
#include "coordinator/text/chat/jinja_repr.h"

namespace numoe::text::jinja {
namespace {

bool AllDigits(std::string_view text) {
  return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

class FieldFormatter {
 public:
  FieldFormatter(Rendering& in, const Arguments& args, bool markup) : in_(in), args_(args), markup_(markup) {}

  Str Format(const Str& format, int depth) {
    Str out = Str().AsMarkup(markup_);
    const std::string& text = format.text();
    for (size_t at = 0; at < text.size() && in_.Charge(1);) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.Append(format.Substr(at, brace - at));
      at = brace;
      if (at >= text.size()) break;
      if (at + 1 < text.size() && text[at + 1] == text[at]) {
        out.Append(format.Substr(at, 1));
        at += 2;
        continue;
      }
      const size_t close = text[at] == '{' ? CloseOf(text, at) : std::string::npos;
      if (close == std::string::npos) {
        in_.Fail(fmt::format("format: '{}' is not part of a field; write it twice for the character itself",
                             text[at]));
        break;
      }
      out.Append(Field(format.Substr(at + 1, close - at - 1), depth));
      if (!in_.Room(out.size())) break;
      at = close + 1;
    }
    return out;
  }

 private:
  static size_t CloseOf(const std::string& text, size_t open) {
    NUMOE_DCHECK_EQ(text[open], '{');
    int depth = 0;
    for (size_t at = open; at < text.size(); ++at) {
      if (text[at] == '{') ++depth;
      if (text[at] == '}' && --depth == 0) return at;
    }
    return std::string::npos;
  }

  // name!conversion:specification
  Str Field(const Str& field, int depth) {
    const std::string& text = field.text();
    size_t end = 0;
    for (bool item = false; end < text.size() && (item || (text[end] != '!' && text[end] != ':')); ++end)
      item = text[end] == '[' || (item && text[end] != ']');
    Value value = Find(text.substr(0, end));
    if (in_.failed()) return {};
    if (end < text.size() && text[end] == '!') {
      value = Converted(value, end + 1 < text.size() ? text[end + 1] : ' ');
      end += 2;
      if (end < text.size() && text[end] != ':') in_.Fail("format: expected ':' after a conversion");
    }
    Str specification = end < text.size() ? field.Substr(end + 1, std::string::npos) : Str();
    if (specification.text().find_first_of("{}") != std::string::npos) {
      if (depth > 0) in_.Fail("format: fields nested too deeply");
      if (!in_.failed()) specification = Format(specification, depth + 1);
    }
    if (in_.failed()) return {};
    const Str* str = value.str();
    if (markup_ && str != nullptr && str->markup() && !specification.empty())
      in_.Fail("format: markup does not take a specification");
    const Str formatted = FormatValue(in_, value, specification.text());
    return markup_ ? Escaped(formatted) : formatted;
  }

  Value Converted(const Value& value, char conversion) {
    if (conversion == 's') return Value(ToStr(value));
    if (conversion == 'r' || conversion == 'a') {
      const std::string repr = value.str() != nullptr && !value.str()->markup()
                                   ? StringRepr(value.str()->text(), conversion == 'a')
                                   : Repr(value);
      return Value::Text(repr, /*trusted=*/false);
    }
    return in_.Fail("format: expected one of the conversions !s, !r and !a");
  }

  // name.attribute[item]...
  Value Find(const std::string& path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    std::string name = path.substr(0, end);
    const bool numbered = AllDigits(name);
    if (name.empty() && !path.empty())
      return in_.Fail("format: an attribute or item of a field without a name");
    if ((name.empty() && by_number_) || (numbered && automatic_))
      return in_.Fail("format: fields with and without numbers cannot be mixed");
    (name.empty() ? automatic_ : by_number_) |= name.empty() || numbered;
    const Value* found = nullptr;
    if (name.empty() || numbered) {
      const size_t index = name.empty() ? next_++ : std::stoul(name);
      if (index < args_.positional.size()) found = &args_.positional[index];
    } else {
      found = args_.Get(SIZE_MAX, name);
    }
    if (found == nullptr) return in_.Fail(fmt::format("format: no argument for {{{}}}", name));
    Value value = *found;
    for (size_t at = end; at < path.size() && !in_.failed();) {
      const bool item = path[at] == '[';
      const size_t stop = item ? path.find(']', at) : std::min(path.find_first_of(".[", at + 1), path.size());
      if (stop == std::string::npos) return in_.Fail("format: '[' is not closed");
      const std::string part = path.substr(at + 1, stop - at - 1);
      if (part.empty()) return in_.Fail("format: an attribute without a name");
      value = !item             ? Attribute(in_, value, part)
              : AllDigits(part) ? Item(in_, value, Value(static_cast<int64_t>(std::stoll(part))))
                                : Item(in_, value, Value::Text(part));
      at = item ? stop + 1 : stop;
    }
    return value;
  }

  Rendering& in_;
  const Arguments& args_;
  const bool markup_;
  size_t next_ = 0;
  bool automatic_ = false, by_number_ = false;
};

}  // namespace

Value FormatFields(Rendering& in, const Str& text, const Arguments& args) {
  Str out = FieldFormatter(in, args, text.markup()).Format(text, 0);
  NUMOE_DCHECK_EQ(out.markup(), text.markup());
  return in.failed() ? Value() : Value(std::move(out));
}

}  // namespace numoe::text::jinja
