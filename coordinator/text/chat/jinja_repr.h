// How values print: Python's str() and repr().
//
// Nested lists print no deeper than templates may nest, and no further than the bytes that a rendering may
// have: what holds the same list many times would print without end. Pure functions.
#pragma once

#include <string>

#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

/// Python's str(): what printing writes.
Str ToStr(const Value& value);
/// Python's repr().
std::string Repr(const Value& value);
/// Python's repr() of a float.
std::string FloatRepr(double value);
/// Python's repr() of a string; `ascii`: as its ascii() writes it.
std::string StringRepr(const std::string& text, bool ascii = false);

}  // namespace numoe::text::jinja
