// Translates expressions into deterministic automata over bytes, with calls of rules as extra symbols.
//
// Lower builds an Nfa (Thompson's construction); Determinise makes a Dfa of it (subset construction). The
// edges of a Dfa's state are bytes (disjoint ranges) and calls (a rule, and the state to return to). With
// calls the whole is a pushdown automaton, which program.h runs. Automata without calls are named machines;
// they have the Boolean operations that string constraints need. Exceeding a limit of GrammarLimits is
// RESOURCE_EXHAUSTED, and the error names the limit. Pure functions; objects belong to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/text/grammar/expression.h"
#include "coordinator/text/grammar/grammar_limits.h"

namespace numoe::text::grammar {

inline constexpr int32_t kNoState = -1;

struct ByteEdge {
  uint8_t low = 0;
  uint8_t high = 0;  // inclusive
  int32_t to = 0;
};

struct CallEdge {
  RuleId rule = 0;
  int32_t to = 0;  // the state after the rule has matched
};

struct DfaState {
  bool final = false;
  std::vector<ByteEdge> bytes;  // sorted, disjoint
  std::vector<CallEdge> calls;
};

/// State 0 is the start. A Dfa without states matches nothing.
struct Dfa {
  std::vector<DfaState> states;
  bool empty() const { return states.empty(); }
};

class Nfa {
 public:
  enum class EdgeKind : uint8_t { kByte, kEpsilon, kCall, kBegin, kEnd };
  struct Edge {
    EdgeKind kind = EdgeKind::kEpsilon;
    uint8_t low = 0, high = 0;
    int32_t to = 0;
    RuleId rule = 0;
    int32_t next = -1;  // the next edge of the same state
  };

  int32_t AddState();
  void AddEdge(int32_t from, Edge edge);
  void AddEpsilon(int32_t from, int32_t to) { AddEdge(from, {.to = to}); }
  void AddByte(int32_t from, uint8_t low, uint8_t high, int32_t to) {
    AddEdge(from, {.kind = EdgeKind::kByte, .low = low, .high = high, .to = to});
  }
  size_t size() const { return first_.size(); }
  /// Calls `visit(edge)` for every edge out of `state`.
  template <typename Visit>
  void ForEachEdge(int32_t state, Visit visit) const {
    for (int32_t e = first_[static_cast<size_t>(state)]; e >= 0; e = edges_[static_cast<size_t>(e)].next)
      visit(edges_[static_cast<size_t>(e)]);
  }

 private:
  std::vector<int32_t> first_;
  std::vector<Edge> edges_;
};

/// How references to rules are translated.
struct RuleTreatment {
  std::vector<bool> inlined;   // [RuleId] whether the rule's body is copied instead of being called
  std::vector<bool> nullable;  // [RuleId] whether the rule matches the empty text
};

/// Returns for each rule whether it matches the empty text.
absl::StatusOr<std::vector<bool>> NullableRules(const Expressions& expressions, const GrammarLimits& limits);

/// Adds states to `nfa` that match `expression` after state `from`. Returns the state at the end of a match.
absl::StatusOr<int32_t> Lower(const Expressions& expressions, ExprId expression, const RuleTreatment& rules,
                              const GrammarLimits& limits, Nfa& nfa, int32_t from);

absl::StatusOr<Dfa> Determinise(const Nfa& nfa, int32_t start, int32_t accept, const GrammarLimits& limits);

/// Translates an expression without rules into a machine. Anchors are resolved: the machine's input is the
/// whole text.
absl::StatusOr<std::shared_ptr<const Dfa>> CompileMachine(const Expressions& expressions, ExprId expression,
                                                          const GrammarLimits& limits);

enum class Combination : uint8_t { kBoth, kFirstOnly };
/// Returns a machine for the texts that both match (kBoth), or that the first matches and the second does not
/// (kFirstOnly). REQUIRES: no calls.
absl::StatusOr<std::shared_ptr<const Dfa>> Combine(const Dfa& first, const Dfa& second, Combination how,
                                                   const GrammarLimits& limits);

bool Matches(const Dfa& machine, std::string_view text);

/// Returns for each state whether a final state can be reached from it by bytes and calls of `productive`
/// rules.
std::vector<bool> ReachesEnd(const Dfa& dfa, const std::vector<bool>& productive);

/// Removes the states that are not in ReachesEnd, and those that the start does not reach.
void Trim(Dfa& dfa, const std::vector<bool>& productive);

}  // namespace numoe::text::grammar
