// The methods of strings: `text.name(arguments)`.
//
// They are Python's methods, on code points. The methods of markup follow MarkupSafe: they return markup and
// escape their arguments. Methods that make more text than they are given are charged for it. encode,
// translate and maketrans are not supported.
#pragma once

#include <string>

#include "coordinator/text/chat/jinja_builtins.h"

namespace numoe::text::jinja {

bool IsStringMethod(const std::string& name);
/// REQUIRES: IsStringMethod(name).
Value RunStringMethod(Rendering& in, const std::string& name, const Str& self, const Arguments& args);

/// Python's str.splitlines.
List SplitLines(const Str& text, bool keep_ends = false);

}  // namespace numoe::text::jinja
