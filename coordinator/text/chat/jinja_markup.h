// Markup, which is text that is already HTML, and the escaping of other text.
//
// Follows MarkupSafe: & < > and both quotes are escaped, and markup is never escaped again. Text that the
// template wrote stays trusted. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

/// Returns `text` as markup: unchanged if it is markup, otherwise escaped.
Str Escaped(const Str& text);
/// Returns `text` escaped, even if it is markup.
Str EscapedAgain(const Str& text);
/// Returns `text` without comments and tags, with single spaces as white space, and with entities replaced by
/// their characters.
std::string StripTags(std::string_view text);

}  // namespace numoe::text::jinja
