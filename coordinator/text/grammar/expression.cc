#include "coordinator/text/grammar/expression.h"

#include <utility>

#include "common/base/check.h"

namespace numoe::text::grammar {

ExprId Expressions::Add(Expr node) {
  nodes_.push_back(std::move(node));
  return static_cast<ExprId>(nodes_.size()) - 1;
}

ExprId Expressions::Literal(std::string_view bytes) {
  if (bytes.empty()) return Empty();
  return Add({.kind = ExprKind::kLiteral, .bytes = std::string(bytes)});
}

ExprId Expressions::Chars(CodepointSet chars) {
  if (chars.empty()) return Never();
  return Add({.kind = ExprKind::kChars, .chars = std::move(chars)});
}

ExprId Expressions::Sequence(const std::vector<ExprId>& parts) {
  std::vector<ExprId> kept;
  for (const ExprId part : parts) {
    if (IsNever(part)) return Never();
    if (at(part).kind != ExprKind::kEmpty) kept.push_back(part);
  }
  if (kept.empty()) return Empty();
  if (kept.size() == 1) return kept[0];
  return Add({.kind = ExprKind::kSequence, .parts = std::move(kept)});
}

ExprId Expressions::Choice(const std::vector<ExprId>& parts) {
  std::vector<ExprId> kept;
  for (const ExprId part : parts)
    if (!IsNever(part)) kept.push_back(part);
  if (kept.empty()) return Never();
  if (kept.size() == 1) return kept[0];
  return Add({.kind = ExprKind::kChoice, .parts = std::move(kept)});
}

ExprId Expressions::Repeat(ExprId part, int min, int max) {
  NUMOE_DCHECK(min >= 0 && max >= kUnbounded) << min << " to " << max;
  if (max == 0 || (IsNever(part) && min == 0)) return Empty();
  if (IsNever(part)) return Never();
  if (min == 1 && max == 1) return part;
  return Add({.kind = ExprKind::kRepeat, .parts = {part}, .min = min, .max = max});
}

ExprId Expressions::Machine(std::shared_ptr<const Dfa> machine) {
  NUMOE_CHECK(machine != nullptr);
  return Add({.kind = ExprKind::kMachine, .machine = std::move(machine)});
}

ExprId Expressions::Graph(std::vector<GraphEdge> edges, int nodes, int accept) {
  NUMOE_CHECK(0 <= accept && accept < nodes);
  Expr node = {.kind = ExprKind::kGraph, .min = nodes, .max = accept};
  std::erase_if(edges, [this](const GraphEdge& edge) { return IsNever(edge.label); });
  for (const GraphEdge& edge : edges) {
    NUMOE_CHECK(edge.from >= 0 && edge.from < nodes && edge.to >= 0 && edge.to < nodes);
    node.parts.push_back(edge.label);
  }
  node.edges = std::move(edges);
  return Add(std::move(node));
}

void Expressions::SetString(RuleId rule, ExprId body, int min, int max) {
  NUMOE_CHECK(0 <= rule && static_cast<size_t>(rule) < rules_.size());
  NUMOE_CHECK(min >= 0 && (max == kUnbounded || max >= min));
  Rule& string = rules_[static_cast<size_t>(rule)];
  string.body = body;
  string.is_string = true;
  string.min = min;
  string.max = max;
}

RuleId Expressions::AddRule(std::string name, bool shared) {
  rules_.push_back({.name = std::move(name), .shared = shared});
  return static_cast<RuleId>(rules_.size()) - 1;
}

}  // namespace numoe::text::grammar
