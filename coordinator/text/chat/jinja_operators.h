// The operators of the template language: slices, signs, arithmetic, comparisons.
//
// Python's semantics on Jinja's values. Operands are values already: what is evaluated, and in which order,
// is the Interpreter's business. What cannot be done fails the rendering with the types of the operands; what
// grows with them is charged to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/text/chat/jinja_rendering.h"
#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

/// What stands between the brackets; nullopt: nothing, or none.
struct SliceBounds {
  std::optional<int64_t> begin, end, step;
};

/// Whether `base` has parts in an order; otherwise fails.
bool CanSlice(Rendering& in, const Value& base);
/// One of the bounds; fails where the value is neither an integer nor none.
std::optional<int64_t> SliceBound(Rendering& in, const Value& value);
/// REQUIRES: CanSlice(base).
Value Slice(Rendering& in, const Value& base, const SliceBounds& bounds);

/// `op`: not, - or +.
Value UnaryOperator(Rendering& in, const std::string& op, const Value& value);
/// `op`: one that needs both operands, so neither `and` nor `or`.
Value BinaryOperator(Rendering& in, const std::string& op, const Value& a, const Value& b);
/// `op`: ==, !=, <, <=, >, >=, in or not in. False where it fails.
bool ComparisonHolds(Rendering& in, const std::string& op, const Value& a, const Value& b);

}  // namespace numoe::text::jinja
