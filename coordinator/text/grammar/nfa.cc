// Thompson's construction, and the resolution of anchors.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/grammar/automaton.h"

namespace numoe::text::grammar {
namespace {

class Lowering {
 public:
  Lowering(const Expressions& expressions, const RuleTreatment& rules, const GrammarLimits& limits, Nfa& nfa)
      : expressions_(expressions), rules_(rules), limits_(limits), nfa_(nfa) {}

  int32_t Add(ExprId id, int32_t from) {
    // Expressions are nested a few times as deeply as their source, because a front end adds nodes at each
    // level.
    if (depth_ > 8 * limits_.nesting || nfa_.size() > limits_.nfa_states || ++steps_ > 8 * limits_.nfa_states)
      overflow_ = true;
    if (overflow_) return from;
    ++depth_;
    const int32_t end = AddNode(expressions_.at(id), from);
    NUMOE_DCHECK(0 <= end && static_cast<size_t>(end) < nfa_.size());
    --depth_;
    return end;
  }

  absl::Status status() const {
    if (!overflow_) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        fmt::format("the grammar is too large: it needs more than {} states before determinisation, or nests "
                    "deeper than {}; use fewer or smaller counted repetitions",
                    limits_.nfa_states, limits_.nesting));
  }

 private:
  int32_t AddNode(const Expr& node, int32_t from) {
    switch (node.kind) {
      case ExprKind::kNever:
        return nfa_.AddState();
      case ExprKind::kEmpty:
        return from;
      case ExprKind::kLiteral:
        return AddLiteral(node.bytes, from);
      case ExprKind::kChars:
        return AddChars(node.chars, from);
      case ExprKind::kSequence:
        for (const ExprId part : node.parts) from = Add(part, from);
        return from;
      case ExprKind::kChoice:
        return AddChoice(node, from);
      case ExprKind::kRepeat:
        return AddRepeat(node, from);
      case ExprKind::kRule:
        return AddRule(node.rule, from);
      case ExprKind::kMachine:
        return AddMachine(*node.machine, from);
      case ExprKind::kGraph:
        return AddGraph(node, from);
      case ExprKind::kBegin:
      case ExprKind::kEnd:
        break;
    }
    const int32_t end = nfa_.AddState();
    nfa_.AddEdge(from, {.kind = node.kind == ExprKind::kBegin ? Nfa::EdgeKind::kBegin : Nfa::EdgeKind::kEnd,
                        .to = end});
    return end;
  }

  int32_t AddLiteral(const std::string& bytes, int32_t from) {
    for (const char c : bytes) {
      const int32_t next = nfa_.AddState();
      nfa_.AddByte(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), next);
      from = next;
    }
    return from;
  }

  int32_t AddChars(const CodepointSet& chars, int32_t from) {
    const int32_t end = nfa_.AddState();
    ForEachUtf8Sequence(chars, [&](const std::vector<ByteRange>& bytes) {
      int32_t at = from;
      for (size_t i = 0; i < bytes.size(); ++i) {
        const int32_t next = i + 1 == bytes.size() ? end : nfa_.AddState();
        nfa_.AddByte(at, bytes[i].low, bytes[i].high, next);
        at = next;
      }
    });
    return end;
  }

  int32_t AddChoice(const Expr& node, int32_t from) {
    const int32_t end = nfa_.AddState();
    for (const ExprId part : node.parts) {
      // Each part begins with its own state, so that edges which a part adds at its start do not affect the
      // others.
      const int32_t begin = nfa_.AddState();
      nfa_.AddEpsilon(from, begin);
      nfa_.AddEpsilon(Add(part, begin), end);
    }
    return end;
  }

  int32_t AddRepeat(const Expr& node, int32_t from) {
    NUMOE_DCHECK(node.parts.size() == 1 && node.min >= 0 && (node.max == kUnbounded || node.max >= node.min));
    const ExprId part = node.parts[0];
    for (int i = 0; i < node.min && !overflow_; ++i) from = Add(part, from);
    if (node.max == kUnbounded) {
      const int32_t loop = nfa_.AddState();
      nfa_.AddEpsilon(from, loop);
      nfa_.AddEpsilon(Add(part, loop), loop);
      const int32_t end = nfa_.AddState();
      nfa_.AddEpsilon(loop, end);
      return end;
    }
    const int32_t end = nfa_.AddState();
    for (int i = node.min; i < node.max && !overflow_; ++i) {
      nfa_.AddEpsilon(from, end);
      const int32_t begin = nfa_.AddState();
      nfa_.AddEpsilon(from, begin);
      from = Add(part, begin);
    }
    nfa_.AddEpsilon(from, end);
    return end;
  }

  int32_t AddRule(RuleId rule, int32_t from) {
    const auto index = static_cast<size_t>(rule);
    NUMOE_CHECK_LT(index, rules_.inlined.size());
    NUMOE_CHECK_GE(expressions_.rules()[index].body, 0) << expressions_.rules()[index].name;
    if (rules_.inlined[index]) return Add(expressions_.rules()[index].body, from);
    const int32_t end = nfa_.AddState();
    nfa_.AddEdge(from, {.kind = Nfa::EdgeKind::kCall, .to = end, .rule = rule});
    if (rules_.nullable[index]) nfa_.AddEpsilon(from, end);
    return end;
  }

  int32_t AddMachine(const Dfa& machine, int32_t from) {
    const int32_t end = nfa_.AddState();
    if (machine.empty()) return end;
    const auto base = static_cast<int32_t>(nfa_.size());
    for (size_t i = 0; i < machine.states.size(); ++i) nfa_.AddState();
    nfa_.AddEpsilon(from, base);
    for (size_t i = 0; i < machine.states.size(); ++i) {
      const DfaState& state = machine.states[i];
      const int32_t at = base + static_cast<int32_t>(i);
      for (const ByteEdge& edge : state.bytes) nfa_.AddByte(at, edge.low, edge.high, base + edge.to);
      if (state.final) nfa_.AddEpsilon(at, end);
    }
    return end;
  }

  int32_t AddGraph(const Expr& node, int32_t from) {
    NUMOE_DCHECK(0 <= node.max && node.max < node.min && node.edges.size() == node.parts.size());
    const auto base = static_cast<int32_t>(nfa_.size());
    for (int i = 0; i < node.min; ++i) nfa_.AddState();
    nfa_.AddEpsilon(from, base);
    for (const GraphEdge& edge : node.edges) {
      const int32_t begin = nfa_.AddState();
      nfa_.AddEpsilon(base + edge.from, begin);
      nfa_.AddEpsilon(Add(edge.label, begin), base + edge.to);
    }
    const int32_t end = nfa_.AddState();
    nfa_.AddEpsilon(base + node.max, end);
    return end;
  }

  const Expressions& expressions_;
  const RuleTreatment& rules_;
  const GrammarLimits& limits_;
  Nfa& nfa_;
  size_t depth_ = 0;
  size_t steps_ = 0;  // also counts repetitions that do not add states
  bool overflow_ = false;
};

bool IsGraphNullable(const Expr& node, const std::vector<bool>& expressions) {
  NUMOE_DCHECK(0 <= node.max && node.max < node.min);
  std::vector<bool> reached(static_cast<size_t>(node.min), false);
  reached[0] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (const GraphEdge& edge : node.edges) {
      if (!reached[static_cast<size_t>(edge.from)] || reached[static_cast<size_t>(edge.to)]) continue;
      if (!expressions[static_cast<size_t>(edge.label)]) continue;
      reached[static_cast<size_t>(edge.to)] = changed = true;
    }
  }
  return reached[static_cast<size_t>(node.max)];
}

bool IsNullable(const Expr& node, const std::vector<bool>& expressions, const std::vector<bool>& rules) {
  const auto part_is = [&](ExprId part) { return expressions[static_cast<size_t>(part)]; };
  switch (node.kind) {
    case ExprKind::kEmpty:
    case ExprKind::kBegin:
    case ExprKind::kEnd:
      return true;
    case ExprKind::kSequence:
      return std::all_of(node.parts.begin(), node.parts.end(), part_is);
    case ExprKind::kChoice:
      return std::any_of(node.parts.begin(), node.parts.end(), part_is);
    case ExprKind::kRepeat:
      return node.min == 0 || part_is(node.parts[0]);
    case ExprKind::kRule:
      return rules[static_cast<size_t>(node.rule)];
    case ExprKind::kMachine:
      return !node.machine->empty() && node.machine->states[0].final;
    case ExprKind::kGraph:
      return IsGraphNullable(node, expressions);
    case ExprKind::kNever:
    case ExprKind::kLiteral:
    case ExprKind::kChars:
      break;
  }
  return false;
}

// Builds the same automaton without anchors. Each state exists in four variants, for "a byte was read" and
// "an end anchor was passed", each true or false.
int32_t ResolveAnchors(const Nfa& in, int32_t start, int32_t accept, Nfa& out, int32_t& out_accept) {
  enum { kConsumed = 1, kEnded = 2, kLayers = 4 };
  static_assert((kConsumed | kEnded) == kLayers - 1);
  for (size_t i = 0; i < in.size() * kLayers; ++i) out.AddState();
  out_accept = out.AddState();
  const auto place = [](int32_t state, int flags) { return state * kLayers + flags; };
  for (int32_t state = 0; state < static_cast<int32_t>(in.size()); ++state) {
    for (int flags = 0; flags < kLayers; ++flags) {
      const int32_t from = place(state, flags);
      in.ForEachEdge(state, [&](const Nfa::Edge& edge) {
        NUMOE_CHECK(edge.kind != Nfa::EdgeKind::kCall);
        if (edge.kind == Nfa::EdgeKind::kByte) {
          if ((flags & kEnded) == 0) out.AddByte(from, edge.low, edge.high, place(edge.to, kConsumed));
        } else if (edge.kind == Nfa::EdgeKind::kEnd) {
          out.AddEpsilon(from, place(edge.to, flags | kEnded));
        } else if (edge.kind == Nfa::EdgeKind::kEpsilon || (flags & kConsumed) == 0) {
          out.AddEpsilon(from, place(edge.to, flags));
        }
      });
    }
  }
  for (int flags = 0; flags < kLayers; ++flags) out.AddEpsilon(place(accept, flags), out_accept);
  return place(start, 0);
}

}  // namespace

int32_t Nfa::AddState() {
  first_.push_back(-1);
  return static_cast<int32_t>(first_.size()) - 1;
}

void Nfa::AddEdge(int32_t from, Edge edge) {
  NUMOE_DCHECK(0 <= edge.to && static_cast<size_t>(edge.to) < first_.size());
  edge.next = first_[static_cast<size_t>(from)];
  first_[static_cast<size_t>(from)] = static_cast<int32_t>(edges_.size());
  edges_.push_back(edge);
}

absl::StatusOr<std::vector<bool>> NullableRules(const Expressions& expressions, const GrammarLimits& limits) {
  const std::vector<Rule>& rules = expressions.rules();
  std::vector<bool> nullable_rules(rules.size(), false), nullable(expressions.size(), false);
  size_t passes = 0;
  for (bool changed = true; changed;) {
    if (++passes > limits.nesting) {
      return absl::ResourceExhaustedError(
          fmt::format("more than {} rules that may be empty depend on each other", limits.nesting));
    }
    changed = false;
    // Parts are made before the expressions that contain them, so one pass settles everything except rules.
    for (size_t i = 0; i < nullable.size(); ++i)
      nullable[i] = IsNullable(expressions.at(static_cast<ExprId>(i)), nullable, nullable_rules);
    for (size_t r = 0; r < rules.size(); ++r) {
      if (nullable_rules[r] || !nullable[static_cast<size_t>(rules[r].body)]) continue;
      nullable_rules[r] = changed = true;
    }
  }
  return nullable_rules;
}

absl::StatusOr<int32_t> Lower(const Expressions& expressions, ExprId expression, const RuleTreatment& rules,
                              const GrammarLimits& limits, Nfa& nfa, int32_t from) {
  Lowering lowering(expressions, rules, limits, nfa);
  const int32_t end = lowering.Add(expression, from);
  RETURN_IF_ERROR(lowering.status());
  return end;
}

absl::StatusOr<std::shared_ptr<const Dfa>> CompileMachine(const Expressions& expressions, ExprId expression,
                                                          const GrammarLimits& limits) {
  Nfa anchored;
  const int32_t start = anchored.AddState();
  ASSIGN_OR_RETURN(const int32_t accept, Lower(expressions, expression, {}, limits, anchored, start));
  Nfa nfa;
  int32_t plain_accept = 0;
  const int32_t plain_start = ResolveAnchors(anchored, start, accept, nfa, plain_accept);
  ASSIGN_OR_RETURN(Dfa dfa, Determinise(nfa, plain_start, plain_accept, limits));
  Trim(dfa, {});
  return std::make_shared<const Dfa>(std::move(dfa));
}

}  // namespace numoe::text::grammar
