// Filters of numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_filters.h"
#include "coordinator/text/chat/jinja_format.h"
#include "coordinator/text/chat/jinja_number_text.h"

namespace numoe::text::jinja {
namespace {

Value Truncated(Rendering& in, double value) {
  if (!(std::fabs(value) < 0x1p63)) return in.Fail("int: a number beyond 64 bits");
  return Value(static_cast<int64_t>(value));
}

Value FallbackOf(const Arguments& args, Value otherwise) {
  const Value* fallback = args.Get(0, "default");
  return fallback != nullptr ? *fallback : otherwise;
}

Value IntFilter(Rendering& in, const Value& v, const Arguments& args) {
  const Value* base = args.Get(1, "base");
  if (v.undefined()) return in.Fail(fmt::format("int: '{}' is undefined", std::get<Undefined>(v.data).name));
  if (const auto i = AsInt(v)) return Value(*i);
  if (const auto d = AsDouble(v)) return std::isnan(*d) ? FallbackOf(args, int64_t{0}) : Truncated(in, *d);
  if (v.str() == nullptr) return FallbackOf(args, int64_t{0});
  const NumberText number = ReadInteger(v.str()->text(), base == nullptr ? 10 : AsInt(*base).value_or(10));
  if (number.integer) return *number.integer;
  if (number.beyond) return in.Fail("int: a number beyond 64 bits");
  const std::optional<double> real = ReadReal(v.str()->text());
  return real && std::isfinite(*real) ? Truncated(in, *real) : FallbackOf(args, int64_t{0});
}

Value FloatFilter(Rendering& in, const Value& v, const Arguments& args) {
  if (v.undefined())
    return in.Fail(fmt::format("float: '{}' is undefined", std::get<Undefined>(v.data).name));
  if (const auto d = AsDouble(v)) return Value(*d);
  const std::optional<double> real = v.str() == nullptr ? std::nullopt : ReadReal(v.str()->text());
  return real ? Value(*real) : FallbackOf(args, 0.0);
}

// Rounds half to even, in decimal, like Python.
double Rounded(double value, int64_t precision) {
  static_assert(kFormatPrecisionMax >= 308, "FormatReal accepts every precision that a double has");
  if (!std::isfinite(value) || precision > 308) return value;
  if (precision >= 0)
    return std::strtod(FormatReal(value, 'f', static_cast<int>(precision), false).c_str(), nullptr);
  const double scale = std::pow(10.0, static_cast<double>(-std::max<int64_t>(precision, -400)));
  return std::isfinite(scale) ? std::nearbyint(value / scale) * scale : 0.0;
}

Value RoundFilter(Rendering& in, const Value& v, const Arguments& args) {
  const std::optional<double> number = AsDouble(v);
  const Value* given = args.Get(0, "precision");
  const std::optional<int64_t> precision = given == nullptr ? 0 : AsInt(*given);
  const std::string method = args.Text(1, "method", "common");
  if (!number) return in.Fail(fmt::format("round: expected a number, found {}", TypeName(v)));
  if (!precision) return in.Fail("round: expected an integer as precision");
  if (method != "common" && method != "ceil" && method != "floor")
    return in.Fail("round: expected the method common, ceil or floor");
  if (method == "common") {
    const double rounded = Rounded(*number, *precision);
    return AsInt(v) ? (*precision >= 0 ? Value(*AsInt(v)) : Truncated(in, rounded)) : Value(rounded);
  }
  const double scale = std::pow(10.0, static_cast<double>(std::clamp<int64_t>(*precision, -300, 300)));
  const double scaled = *number * scale;
  if (!std::isfinite(scaled)) return in.Fail("round: the result is not a finite number");
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value AbsFilter(Rendering& in, const Value& v, const Arguments&) {
  if (const auto i = AsInt(v))
    return *i == INT64_MIN ? in.Fail("abs: a number beyond 64 bits") : Value(*i < 0 ? -*i : *i);
  if (const auto d = AsDouble(v)) return Value(std::fabs(*d));
  return in.Fail(fmt::format("abs: expected a number, found {}", TypeName(v)));
}

Value FileSizeFilter(Rendering& in, const Value& v, const Arguments& args) {
  std::optional<double> bytes = AsDouble(v);
  if (!bytes && v.str() != nullptr) bytes = ReadReal(v.str()->text());
  if (!bytes || !std::isfinite(*bytes))
    return in.Fail(fmt::format("filesizeformat: expected a number, found {}", TypeName(v)));
  const bool binary = args.Flag(0, "binary", false);
  const double base = binary ? 1024 : 1000;
  NUMOE_DCHECK(std::isfinite(*bytes));
  if (*bytes == 1) return Value::Text("1 Byte");
  if (*bytes < base) return Value::Text(fmt::format("{:.0f} Bytes", std::trunc(*bytes)));
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  size_t i = 0;
  for (; i + 1 < kPrefixes.size() && *bytes >= unit * base; ++i) unit *= base;
  const std::string prefix =
      binary ? std::string(1, i == 0 ? 'K' : kPrefixes[i]) + "i" : std::string(1, kPrefixes[i]);
  return Value::Text(FormatReal(base * *bytes / (unit * base), 'f', 1, false) + " " + prefix + "B");
}

}  // namespace

const FilterTable& NumberFilters() {
  static const FilterTable filters = {
      {"int", {IntFilter, "default,base"}},           {"float", {FloatFilter, "default"}},
      {"round", {RoundFilter, "precision,method"}},   {"abs", {AbsFilter, ""}},
      {"filesizeformat", {FileSizeFilter, "binary"}},
  };
  return filters;
}

}  // namespace numoe::text::jinja
