// The printed forms of values: Python's str() and repr().
//
// Nested lists are printed only to the depth to which templates may be nested, and only up to the bytes of a
// rendering's output, because a value that contains the same list many times could have an enormous printed
// form. Pure functions.
#pragma once

#include <string>

#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

/// Python's str(), the text that printing writes.
Str ToStr(const Value& value);
/// Python's repr().
std::string Repr(const Value& value);
/// Python's repr() of a float.
std::string FloatRepr(double value);
/// Python's repr() of a string, or with `ascii` Python's ascii().
std::string StringRepr(const std::string& text, bool ascii = false);

}  // namespace numoe::text::jinja
