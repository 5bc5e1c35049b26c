#include "coordinator/text/grammar/inlining.h"

#include <algorithm>
#include <limits>

namespace numoe::text::grammar {
namespace {

constexpr int64_t kCopiesSizeMax =
    4'000;  // approximate states of all copies of a rule; a single copy has no limit
constexpr int64_t kHuge = 1'000'000'000;

class Inlining {
 public:
  Inlining(const Expressions& expressions, const GrammarLimits& limits)
      : expressions_(expressions),
        limits_(limits),
        rules_(expressions.rules()),
        inlined_(rules_.size()),
        colour_(rules_.size(), kNew),
        uses_(rules_.size(), 0),
        size_(expressions.size(), -1),
        seen_(expressions.size(), -1) {}

  // A depth-first search over calls. The rule at which a cycle of calls closes is called, which breaks the
  // cycle. The other rules are decided after all rules that they call.
  std::vector<bool> Choose(RuleId root) {
    CountUses(root);
    Open(root);
    inlined_[static_cast<size_t>(root)] = false;
    while (!visits_.empty()) {
      Visit& visit = visits_.back();
      if (visit.callees.empty()) {
        const auto rule = static_cast<size_t>(visit.rule);
        const int64_t size = Size(rules_[rule].body);
        inlined_[rule] = inlined_[rule] && (uses_[rule] == 1 || size * uses_[rule] <= kCopiesSizeMax);
        colour_[rule] = kDone;
        visits_.pop_back();
        continue;
      }
      const RuleId callee = visit.callees.back();
      visit.callees.pop_back();
      if (colour_[static_cast<size_t>(callee)] == kOpen) inlined_[static_cast<size_t>(callee)] = false;
      if (colour_[static_cast<size_t>(callee)] == kNew) Open(callee);
    }
    return inlined_;
  }

 private:
  enum Colour : uint8_t { kNew, kOpen, kDone };
  struct Visit {
    RuleId rule;
    std::vector<RuleId> callees;
  };

  void Open(RuleId rule) {
    const auto index = static_cast<size_t>(rule);
    colour_[index] = kOpen;
    // Copies within copies would otherwise be lowered more deeply than the nesting limit allows.
    const bool deep = visits_.size() % (limits_.nesting / 4 + 1) == limits_.nesting / 4;
    inlined_[index] = !rules_[index].shared && !deep;
    visits_.push_back({rule, Callees(rule)});
  }

  std::vector<RuleId> Callees(RuleId rule) {
    std::vector<RuleId> callees;
    std::vector<ExprId> stack = {rules_[static_cast<size_t>(rule)].body};
    while (!stack.empty()) {
      const ExprId at = stack.back();
      stack.pop_back();
      if (seen_[static_cast<size_t>(at)] == rule) continue;
      seen_[static_cast<size_t>(at)] = rule;
      const Expr& node = expressions_.at(at);
      if (node.kind == ExprKind::kRule) callees.push_back(node.rule);
      stack.insert(stack.end(), node.parts.begin(), node.parts.end());
    }
    return callees;
  }

  void CountUses(RuleId root) {
    std::vector<RuleId> queue = {root};
    std::vector<bool> queued(rules_.size());
    queued[static_cast<size_t>(root)] = true;
    for (size_t i = 0; i < queue.size(); ++i) {
      for (const RuleId callee : Callees(queue[i])) {
        ++uses_[static_cast<size_t>(callee)];
        if (!queued[static_cast<size_t>(callee)]) queue.push_back(callee);
        queued[static_cast<size_t>(callee)] = true;
      }
    }
    std::fill(seen_.begin(), seen_.end(), -1);
  }

  // Returns the approximate number of states that an expression takes.
  int64_t Size(ExprId id) {
    int64_t& size = size_[static_cast<size_t>(id)];
    if (size >= 0) return size;
    const Expr& node = expressions_.at(id);
    int64_t total = 1 + static_cast<int64_t>(node.bytes.size() + node.chars.ranges().size());
    if (node.kind == ExprKind::kRule && inlined_[static_cast<size_t>(node.rule)])
      total += Size(rules_[static_cast<size_t>(node.rule)].body);
    for (const ExprId part : node.parts) total = std::min(kHuge, total + Size(part));
    if (node.kind == ExprKind::kRepeat) total *= std::max({1, node.min, node.max});
    return size = std::min(kHuge, total);
  }

  const Expressions& expressions_;
  const GrammarLimits& limits_;
  const std::vector<Rule>& rules_;
  std::vector<bool> inlined_;
  std::vector<Colour> colour_;
  std::vector<int64_t> uses_;  // by RuleId
  std::vector<int64_t> size_;  // by ExprId
  std::vector<RuleId>
      seen_;  // by ExprId: the last rule for which the callees in that expression were collected
  std::vector<Visit> visits_;
};

}  // namespace

std::vector<bool> ChooseInlined(const Expressions& expressions, RuleId root, const GrammarLimits& limits) {
  return Inlining(expressions, limits).Choose(root);
}

}  // namespace numoe::text::grammar
