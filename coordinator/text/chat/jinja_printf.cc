// text % args, with the conversions of C's printf and Python's additions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_format.h"
#include "coordinator/text/chat/jinja_markup.h"
#include "coordinator/text/chat/jinja_repr.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

struct Conversion {
  std::string flags;
  int64_t width = 0;
  std::optional<int64_t> precision;
  char type = 0;

  bool Has(char flag) const { return flags.find(flag) != std::string::npos; }
};

class PrintfFormatter {
 public:
  PrintfFormatter(Rendering& in, const Str& format, const Value& args)
      : in_(in), format_(format), text_(format.text()), args_(args) {}

  Value Run() {
    Str out = Str().AsMarkup(format_.markup());
    while (at_ < text_.size() && in_.Charge(1)) {
      const size_t percent = std::min(text_.find('%', at_), text_.size());
      out.Append(format_.Substr(at_, percent - at_));
      at_ = percent + 1;
      if (percent >= text_.size()) break;
      out.Append(Convert());
      if (!in_.Room(out.size())) break;
    }
    const bool mapping =
        args_.str() == nullptr && !args_.tuple() && (args_.list() != nullptr || args_.dict() != nullptr);
    const size_t given = args_.tuple() ? args_.list()->size() : 1;
    if (!mapping && next_ < given) in_.Fail("%: not all arguments are used");
    return in_.failed() ? Value() : Value(std::move(out));
  }

 private:
  Str Fail(const std::string& what) {
    in_.Fail("%: " + what);
    return {};
  }

  Value NextArgument() {
    if (args_.tuple()) {
      if (next_ < args_.list()->size()) return (*args_.list())[next_++];
    } else if (next_ == 0) {
      ++next_;
      return args_;
    }
    return in_.Fail("%: too few arguments");
  }

  // Reads a number; for '*' takes the next argument.
  std::optional<int64_t> ReadNumber() {
    if (at_ < text_.size() && text_[at_] == '*') {
      ++at_;
      const std::optional<int64_t> number = AsInt(NextArgument());
      if (!number) Fail("expected an integer for *");
      return number;
    }
    std::optional<int64_t> number;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      number = std::min<int64_t>(number.value_or(0) * 10 + (text_[at_] - '0'), 1 << 30);
    return number;
  }

  Str Convert() {
    std::optional<Value> named;
    if (at_ < text_.size() && text_[at_] == '(') {
      const size_t close = text_.find(')', at_);
      if (close == std::string::npos) return Fail("'(' is not closed");
      if (args_.dict() == nullptr) return Fail("a name needs a mapping");
      const std::string name = text_.substr(at_ + 1, close - at_ - 1);
      const Value* found = args_.dict()->FindName(name);
      if (found == nullptr) return Fail(fmt::format("no argument for '{}'", name));
      named = *found;
      next_ = 1;
      at_ = close + 1;
    }
    Conversion conversion;
    while (at_ < text_.size() && std::string_view("-+ #0").find(text_[at_]) != std::string_view::npos)
      conversion.flags += text_[at_++];
    conversion.width = ReadNumber().value_or(0);
    if (conversion.width < 0) {
      conversion.flags += '-';
      conversion.width = -std::max<int64_t>(conversion.width, -(1 << 30));
    }
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      conversion.precision = std::max<int64_t>(ReadNumber().value_or(0), 0);
    }
    while (at_ < text_.size() && std::string_view("hlL").find(text_[at_]) != std::string_view::npos) ++at_;
    if (at_ >= text_.size()) return Fail("a conversion is not complete");
    conversion.type = text_[at_++];
    NUMOE_DCHECK_LE(at_, text_.size());
    if (conversion.type == '%') return Str("%", true);
    const Value value = named ? *named : NextArgument();
    return in_.failed() ? Str() : Converted(conversion, value);
  }

  Str Converted(const Conversion& conversion, const Value& value) {
    const char type = conversion.type;
    if (std::string_view("sra").find(type) != std::string_view::npos) return Text(conversion, value);
    if (type == 'c') return Character(conversion, value);
    if (std::string_view("diuoxX").find(type) != std::string_view::npos) return Integer(conversion, value);
    if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
      if (!AsDouble(value)) return Fail(fmt::format("expected a number, found {}", TypeName(value)));
      const int64_t precision = conversion.precision.value_or(6);
      if (precision > kFormatPrecisionMax) return Fail("the precision is too large");
      const double number = *AsDouble(value);
      return Number(conversion, std::signbit(number) && !std::isnan(number), "",
                    FormatReal(std::fabs(number), type, static_cast<int>(precision), conversion.Has('#')));
    }
    return Fail(fmt::format("no conversion is named '{}'", type));
  }

  Str Text(const Conversion& conversion, const Value& value) {
    const bool plain = value.str() != nullptr && !value.str()->markup();
    Str text = conversion.type == 's' ? ToStr(value)
               : plain
                   ? Str(StringRepr(value.str()->text(), conversion.type == 'a'), value.str()->AllTrusted())
                   : Str(Repr(value), /*trusted=*/false);
    if (format_.markup()) text = Escaped(text);
    const std::vector<size_t> offsets = CodePointOffsets(text.text());
    NUMOE_DCHECK_GE(offsets.size(), 1u);
    const auto count = static_cast<int64_t>(offsets.size()) - 1;
    text =
        text.Substr(0, offsets[static_cast<size_t>(std::min(conversion.precision.value_or(count), count))]);
    return Padded(in_, text, conversion.width, conversion.Has('-') ? '<' : '>', Str(" ", true));
  }

  Str Character(const Conversion& conversion, const Value& value) {
    const auto point = AsInt(value);
    const bool one = value.str() != nullptr && CodePointOffsets(value.str()->text()).size() == 2;
    if (!one && (!point || *point < 0 || *point > 0x10FFFF)) return Fail("expected a character for %c");
    const Str text = one ? *value.str() : Str(CodePointText(static_cast<int32_t>(*point)), true);
    return Padded(in_, text, conversion.width, conversion.Has('-') ? '<' : '>', Str(" ", true));
  }

  Str Integer(const Conversion& conversion, const Value& value) {
    const bool decimal = std::string_view("diu").find(conversion.type) != std::string_view::npos;
    std::optional<int64_t> number = AsInt(value);
    if (!number && decimal && value.If<double>() != nullptr && std::fabs(*value.If<double>()) < 0x1p63)
      number = static_cast<int64_t>(*value.If<double>());
    if (!number) return Fail(fmt::format("expected an integer of 64 bits, found {}", TypeName(value)));
    std::string digits = FormatMagnitude(*number, decimal ? 'd' : conversion.type);
    const int64_t precision = conversion.precision.value_or(0);
    if (precision > kFormatPrecisionMax) return Fail("the precision is too large");
    NUMOE_DCHECK(!digits.empty());
    if (static_cast<int64_t>(digits.size()) < precision)
      digits.insert(0, static_cast<size_t>(precision) - digits.size(), '0');
    const std::string prefix = conversion.Has('#') && !decimal ? std::string("0") + conversion.type : "";
    return Number(conversion, *number < 0, prefix, digits);
  }

  Str Number(const Conversion& conversion, bool negative, const std::string& prefix,
             const std::string& digits) {
    const std::string sign = negative ? "-" : conversion.Has('+') ? "+" : conversion.Has(' ') ? " " : "";
    const std::string head = sign + prefix;
    if (conversion.Has('0') && !conversion.Has('-')) {
      const int64_t width = conversion.width - static_cast<int64_t>(head.size());
      return Str(head + Padded(in_, Str(digits, true), width, '>', Str("0", true)).text(), true);
    }
    return Padded(in_, Str(head + digits, true), conversion.width, conversion.Has('-') ? '<' : '>',
                  Str(" ", true));
  }

  Rendering& in_;
  const Str& format_;
  const std::string& text_;
  const Value& args_;
  size_t at_ = 0;
  size_t next_ = 0;  // the index of the next argument
};

}  // namespace

Value PrintfFormat(Rendering& in, const Str& text, const Value& args) {
  NUMOE_DCHECK(!in.failed());
  return PrintfFormatter(in, text, args).Run();
}

}  // namespace numoe::text::jinja
