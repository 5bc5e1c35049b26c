// Access to the inside of a value: its attributes and items, the items of a loop over it, and the check of
// values that are added to it.
//
// Follows Jinja2's rules: a missing attribute is undefined, which fails only when it is used. Impossible
// operations fail the rendering; work that grows with the value is charged to it. These functions work on
// values; only the Evaluator knows variables by name.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/text/chat/jinja_rendering.h"
#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

/// The label of the pairs that groupby returns, whose two parts have names.
inline constexpr std::string_view kGroupLabel = "group";

Value Attribute(Rendering& in, const Value& base, const std::string& name);
Value Item(Rendering& in, const Value& base, const Value& key);
/// Returns the attribute or item for the attribute= of a filter: dots separate steps, and numbers are
/// indices. `fallback`, if it is given and not none, replaces an undefined result of a step.
Value Lookup(Rendering& in, const Value& base, const Value& path, const Value* fallback = nullptr);
/// Returns the items for a loop over `value`; a generator has none afterwards. Fails for values that cannot
/// be iterated.
List Iterate(Rendering& in, const Value& value);
/// Checks whether `value` may be added to `container` (the address of a list or dict). Fails if a value would
/// contain itself, because reference counts would never free it and printing it would never end, or if lists
/// would be nested too deeply.
bool MayHold(Rendering& in, const void* container, const Value& value, int depth = 0);

}  // namespace numoe::text::jinja
