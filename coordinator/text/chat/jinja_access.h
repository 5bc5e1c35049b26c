// What is inside a value: its attributes and items, what a loop over it sees, and what may be put into it.
//
// Jinja2's rules: an attribute that is not there is undefined, which fails only once something is done with
// it. What cannot be done fails the rendering; what grows with the value is charged to it. Nothing here knows
// a variable's name: that is the Interpreter's business.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/text/chat/jinja_rendering.h"
#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

/// Marks the pairs that groupby gives: they have names for their two parts.
inline constexpr std::string_view kGroupLabel = "group";

Value Attribute(Rendering& in, const Value& base, const std::string& name);
Value Item(Rendering& in, const Value& base, const Value& key);
/// a.name or a['name'] as filters with attribute= see it; dots descend, numbers are places. `fallback`, if it
/// is there and not none, stands for what is undefined on the way.
Value Lookup(Rendering& in, const Value& base, const Value& path, const Value* fallback = nullptr);
/// What a for loop sees, and what a generator will not give again; fails for values that cannot be iterated.
List Iterate(Rendering& in, const Value& value);
/// Whether `container` (a list's or dict's address) may take `value` in: fails where a value would hold
/// itself, which counted references never free and printing never ends, and where lists are nested too
/// deeply.
bool MayHold(Rendering& in, const void* container, const Value& value, int depth = 0);

}  // namespace numoe::text::jinja
