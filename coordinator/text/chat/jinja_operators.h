// The operators of the template language: slices, signs, arithmetic, comparisons.
//
// They have Python's semantics on Jinja's values. The Evaluator has evaluated the operands before and decides
// their order. Impossible operations fail the rendering with the types of the operands; work that grows with
// the operands is charged to the rendering.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/text/chat/jinja_rendering.h"
#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

/// The bounds between the brackets; nullopt for a missing bound or none.
struct SliceBounds {
  std::optional<int64_t> begin, end, step;
};

/// Whether `base` is a text, list, tuple or range; otherwise fails.
bool CanSlice(Rendering& in, const Value& base);
/// Returns the bound for `value`; fails if it is neither an integer nor none.
std::optional<int64_t> SliceBound(Rendering& in, const Value& value);
/// REQUIRES: CanSlice(base).
Value Slice(Rendering& in, const Value& base, const SliceBounds& bounds);

/// `op` is not, - or +.
Value UnaryOperator(Rendering& in, const std::string& op, const Value& value);
/// `op` is an operator that needs both operands, so neither `and` nor `or`.
Value BinaryOperator(Rendering& in, const std::string& op, const Value& a, const Value& b);
/// `op` is ==, !=, <, <=, >, >=, in or not in. Returns false if it fails.
bool ComparisonHolds(Rendering& in, const std::string& op, const Value& a, const Value& b);

}  // namespace numoe::text::jinja
