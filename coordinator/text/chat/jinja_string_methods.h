// The methods of strings: `text.name(arguments)`.
//
// Python's, on code points; of markup, MarkupSafe's, which give markup and escape their arguments. What makes
// more text than was given is charged. encode, translate and maketrans are not among them.
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
