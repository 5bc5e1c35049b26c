#include "coordinator/text/chat/jinja_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_repr.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct Specification {
  std::string fill = " ";
  char align = 0;
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;
  std::optional<int64_t> precision;
  char type = 0;
};

class SpecificationReader {
 public:
  explicit SpecificationReader(std::string_view text) : text_(text) {}

  std::optional<Specification> Read() {
    ReadAlignment();
    if (NextIs("+- ")) spec_.sign = Take();
    if (NextIs("#")) spec_.alternate = Take() == '#';
    if (NextIs("0")) {
      Take();
      if (spec_.align == 0) {
        spec_.align = '=';
        spec_.fill = "0";
      }
    }
    spec_.width = ReadNumber().value_or(0);
    if (NextIs(",_")) spec_.grouping = Take();
    if (NextIs(".")) {
      Take();
      spec_.precision = ReadNumber();
      if (!spec_.precision) return std::nullopt;
    }
    if (!text_.empty()) spec_.type = Take();
    const bool bounded = spec_.precision.value_or(0) <= kFormatPrecisionMax;
    return text_.empty() && bounded ? std::optional(spec_) : std::nullopt;
  }

 private:
  bool NextIs(std::string_view any) const {
    return !text_.empty() && any.find(text_[0]) != std::string_view::npos;
  }
  char Take() {
    NUMOE_DCHECK(!text_.empty());
    const char c = text_[0];
    text_.remove_prefix(1);
    return c;
  }
  void ReadAlignment() {
    const std::vector<size_t> offsets = CodePointOffsets(text_);
    const size_t fill = offsets.size() > 1 ? offsets[1] : 0;
    if (offsets.size() > 2 && std::string_view("<>=^").find(text_[fill]) != std::string_view::npos) {
      spec_.fill = text_.substr(0, fill);
      text_.remove_prefix(fill);
      spec_.align = Take();
    } else if (NextIs("<>=^")) {
      spec_.align = Take();
    }
  }
  std::optional<int64_t> ReadNumber() {
    std::optional<int64_t> number;
    while (NextIs("0123456789"))
      number = std::min<int64_t>(number.value_or(0) * 10 + (Take() - '0'), 1 << 30);
    return number;
  }

  std::string_view text_;
  Specification spec_;
};

// Divides the digits before the point or exponent into groups, with leading zeros up to `width`.
std::string Grouped(const std::string& number, const Specification& spec, int64_t width) {
  const size_t whole = std::min(number.find_first_of(".e%"), number.size());
  const size_t group = spec.grouping == '_' &&
                               std::string_view("boxX").find(spec.type) != std::string_view::npos &&
                               spec.type != 0
                           ? 4
                           : 3;
  std::string digits = number.substr(0, whole);
  const std::string rest = number.substr(whole);
  NUMOE_DCHECK_EQ(digits.size() + rest.size(), number.size());
  const auto grouped = [&] {
    std::string out;
    for (size_t i = 0; i < digits.size(); ++i) {
      if (i > 0 && spec.grouping != 0 && (digits.size() - i) % group == 0) out += spec.grouping;
      out += digits[i];
    }
    return out + rest;
  };
  std::string out = grouped();
  if (spec.align != '=' || spec.fill != "0") return out;
  if (spec.grouping == 0) {
    const auto size = static_cast<int64_t>(out.size());
    return std::string(static_cast<size_t>(std::max<int64_t>(width - size, 0)), '0') + out;
  }
  while (static_cast<int64_t>(out.size()) < width &&
         static_cast<int64_t>(digits.size()) < kFormatPrecisionMax) {
    digits.insert(0, "0");
    out = grouped();
  }
  return out;
}

Str FormatNumber(Rendering& in, const Specification& spec, bool negative, const std::string& prefix,
                 const std::string& digits) {
  if (!in.Room(static_cast<size_t>(spec.width))) return {};
  std::string head = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  head += prefix;
  std::string body = Grouped(digits, spec, spec.width - static_cast<int64_t>(head.size()));
  if (spec.align == '=') {
    const Str padded = Padded(in, Str(body, true), spec.width - static_cast<int64_t>(head.size()), '>',
                              Str(spec.fill, true));
    return Str(head + padded.text(), true);
  }
  return Padded(in, Str(head + body, true), spec.width, spec.align == 0 ? '>' : spec.align,
                Str(spec.fill, true));
}

Str FormatAsReal(Rendering& in, double value, Specification spec) {
  const char type = spec.type == 0 || spec.type == 'n' ? 'g' : spec.type;
  std::string digits;
  if (spec.type == 0 && !spec.precision) {
    digits = FloatRepr(std::fabs(value));
  } else if (type == '%') {
    digits = FormatReal(std::fabs(value) * 100, 'f', static_cast<int>(spec.precision.value_or(6)),
                        spec.alternate) +
             "%";
  } else {
    const auto precision = static_cast<int>(spec.precision.value_or(6));
    digits = FormatReal(std::fabs(value), type, precision, spec.alternate);
    const bool bare = spec.type == 0 && digits.find_first_not_of("0123456789") == std::string::npos;
    if (bare) digits += ".0";  // without a type there is at least one digit after the point
  }
  return FormatNumber(in, spec, std::signbit(value) && !std::isnan(value), "", digits);
}

Str FormatAsInteger(Rendering& in, int64_t value, const Specification& spec) {
  if (spec.precision) {
    in.Fail("format: a precision is not allowed for integers");
    return {};
  }
  const char type = spec.type == 0 || spec.type == 'n' ? 'd' : spec.type;
  if (type == 'c') {
    return FormatNumber(in, spec, false, "",
                        CodePointText(value < 0 || value > 0x10FFFF ? -1 : static_cast<int32_t>(value)));
  }
  const std::string prefix = spec.alternate && type != 'd' ? std::string("0") + type : "";
  return FormatNumber(in, spec, value < 0, prefix, FormatMagnitude(value, type));
}

}  // namespace

Str Padded(Rendering& in, const Str& text, int64_t width, char align, const Str& fill) {
  const int64_t missing = width - (static_cast<int64_t>(CodePointOffsets(text.text()).size()) - 1);
  if (missing <= 0) return text;
  if (!in.Room(static_cast<size_t>(missing) * std::max<size_t>(fill.size(), 1))) return {};
  NUMOE_DCHECK(align == '<' || align == '>' || align == '^' || align == '=') << align;
  const int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  Str out = Str().AsMarkup(text.markup());
  for (int64_t i = 0; i < left; ++i) out.Append(fill);
  out.Append(text);
  for (int64_t i = left; i < missing; ++i) out.Append(fill);
  return out;
}

std::string FormatReal(double value, char type, int precision, bool alternate) {
  NUMOE_DCHECK(precision >= 0 && precision <= kFormatPrecisionMax) << precision;
  const bool upper = type == 'E' || type == 'F' || type == 'G';
  if (!std::isfinite(value)) {
    const std::string_view name = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    return upper ? Upper(name) : std::string(name);
  }
  switch (type) {
    case 'e':
      return alternate ? fmt::format("{:#.{}e}", value, precision) : fmt::format("{:.{}e}", value, precision);
    case 'E':
      return alternate ? fmt::format("{:#.{}E}", value, precision) : fmt::format("{:.{}E}", value, precision);
    case 'g':
      return alternate ? fmt::format("{:#.{}g}", value, precision) : fmt::format("{:.{}g}", value, precision);
    case 'G':
      return alternate ? fmt::format("{:#.{}G}", value, precision) : fmt::format("{:.{}G}", value, precision);
    default:
      NUMOE_DCHECK(type == 'f' || type == 'F') << type;
      return alternate ? fmt::format("{:#.{}f}", value, precision) : fmt::format("{:.{}f}", value, precision);
  }
}

std::string FormatMagnitude(int64_t value, char type) {
  const uint64_t size = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  switch (type) {
    case 'b':
      return fmt::format("{:b}", size);
    case 'o':
      return fmt::format("{:o}", size);
    case 'x':
      return fmt::format("{:x}", size);
    case 'X':
      return fmt::format("{:X}", size);
    default:
      NUMOE_DCHECK_EQ(type, 'd');
      return fmt::format("{}", size);
  }
}

Str FormatValue(Rendering& in, const Value& value, std::string_view specification) {
  if (specification.empty()) return ToStr(value);
  const std::optional<Specification> spec = SpecificationReader(specification).Read();
  const auto refuse = [&] {
    in.Fail(fmt::format("format: the specification '{}' does not fit {}", specification, TypeName(value)));
    return Str();
  };
  if (!spec) return refuse();
  const std::string_view real_types = "eEfFgGn%";
  const auto type_in = [&](std::string_view types) {
    return spec->type == 0 || types.find(spec->type) != std::string_view::npos;
  };
  if (const Str* str = value.str()) {
    if (!type_in("s") || spec->align == '=' || spec->sign != '-' || spec->grouping != 0) return refuse();
    const std::vector<size_t> offsets = CodePointOffsets(str->text());
    const auto kept = static_cast<size_t>(
        std::min<int64_t>(spec->precision.value_or(INT32_MAX), static_cast<int64_t>(offsets.size()) - 1));
    return Padded(in, str->Substr(0, offsets[kept]), spec->width, spec->align == 0 ? '<' : spec->align,
                  Str(spec->fill, true));
  }
  if (AsInt(value) && type_in("bcdoxXn")) return FormatAsInteger(in, *AsInt(value), *spec);
  if (AsDouble(value) && type_in(real_types)) return FormatAsReal(in, *AsDouble(value), *spec);
  return refuse();
}

}  // namespace numoe::text::jinja
