// Formatting of values: Python's format() specifications, str.format and the % operator.
//
// Widths and precisions come from templates and requests, so they are bounded and charged. Values that are
// inserted into markup are escaped. Formats that Python refuses fail the rendering.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/text/chat/jinja_builtins.h"
#include "coordinator/text/chat/jinja_rendering.h"
#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

/// Returns `text` padded to `width` characters, in the middle ('^'), at the left ('<') or at the right ('>').
Str Padded(Rendering& in, const Str& text, int64_t width, char align, const Str& fill);
/// format(value, specification)
Str FormatValue(Rendering& in, const Value& value, std::string_view specification);
/// text.format(*args, **kwargs)
Value FormatFields(Rendering& in, const Str& text, const Arguments& args);
/// text % args
Value PrintfFormat(Rendering& in, const Str& text, const Value& args);

/// Returns the number as C's printf writes it. REQUIRES: `type` is one of eEfFgG.
std::string FormatReal(double value, char type, int precision, bool alternate);
/// Returns the digits without sign or prefix. REQUIRES: `type` is one of bdoxX.
std::string FormatMagnitude(int64_t value, char type);

inline constexpr int64_t kFormatPrecisionMax = 1000;

}  // namespace numoe::text::jinja
