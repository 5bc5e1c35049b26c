// From expressions to deterministic automata over bytes, with calls of rules as extra symbols.
//
// Nfa is Thompson's construction; Determinise is the subset construction. A state of a Dfa leads on by bytes
// (disjoint ranges) and by calls: (rule, state to return to). Calls make the whole a pushdown automaton,
// whose run time is program.h. Machines, automata without calls, have the Boolean operations that string
// constraints need. Exceeding a limit of GrammarLimits is RESOURCE_EXHAUSTED naming it. Pure; one thread.
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
  int32_t to = 0;  // where it goes on when the rule has matched
};

struct DfaState {
  bool final = false;
  std::vector<ByteEdge> bytes;  // sorted, disjoint
  std::vector<CallEdge> calls;
};

/// State 0 is the start. No states at all: matches nothing.
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
    int32_t next = -1;  // edge of the same state
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

/// How rules are treated where an expression refers to them.
struct RuleTreatment {
  std::vector<bool> inlined;   // by RuleId: its body is copied, instead of being called
  std::vector<bool> nullable;  // by RuleId: it matches the empty text
};

/// Which rules match the empty text.
absl::StatusOr<std::vector<bool>> NullableRules(const Expressions& expressions, const GrammarLimits& limits);

/// Adds what `expression` matches to `nfa`, from `from` on; the returned state is where it ends.
absl::StatusOr<int32_t> Lower(const Expressions& expressions, ExprId expression, const RuleTreatment& rules,
                              const GrammarLimits& limits, Nfa& nfa, int32_t from);

absl::StatusOr<Dfa> Determinise(const Nfa& nfa, int32_t start, int32_t accept, const GrammarLimits& limits);

/// An expression without rules as a machine; anchors are resolved, as if the text were all there is.
absl::StatusOr<std::shared_ptr<const Dfa>> CompileMachine(const Expressions& expressions, ExprId expression,
                                                          const GrammarLimits& limits);

enum class Combination : uint8_t { kBoth, kFirstOnly };
/// What both match, or what the first matches and the second does not. REQUIRES: no calls.
absl::StatusOr<std::shared_ptr<const Dfa>> Combine(const Dfa& first, const Dfa& second, Combination how,
                                                   const GrammarLimits& limits);

bool Matches(const Dfa& machine, std::string_view text);

/// By state: can an end be reached, calling `productive` rules only?
std::vector<bool> ReachesEnd(const Dfa& dfa, const std::vector<bool>& productive);

/// Removes states from which no end can be reached, where only calls of `productive` rules can be used, and
/// states that the start does not reach.
void Trim(Dfa& dfa, const std::vector<bool>& productive);

}  // namespace numoe::text::grammar
