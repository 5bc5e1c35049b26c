// Markup: text that is HTML already, and how other text becomes it.
//
// As MarkupSafe does it: & < > and both quotes are escaped, and markup is never escaped again. What the
// template wrote stays trusted. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

/// `text` as markup: itself if it is some, otherwise escaped.
Str Escaped(const Str& text);
/// Escaped even if it is markup.
Str EscapedAgain(const Str& text);
/// Without comments and tags, white space in single spaces, entities read.
std::string StripTags(std::string_view text);

}  // namespace numoe::text::jinja
