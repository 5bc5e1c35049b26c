// Program: a compiled grammar, a pushdown automaton over bytes in flat tables.
//
// Each rule is a deterministic automaton over bytes and calls; the states of all rules share one numbering.
// Every state can reach the end of its rule, so any accepted text can be completed. No rule calls itself,
// directly or through other rules, before it has read a byte; therefore `order` can sort each rule before the
// rules that it may call first. Built once, then immutable and thread-safe. Errors: no text matches, left
// recursion (with the names of the rules), limits.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/text/grammar/automaton.h"

namespace numoe::text::grammar {

using StateId = int32_t;
using ByteSet = std::bitset<256>;

/// Text that the automaton certainly accepts next: up to `length` characters, in any order, of the ASCII
/// characters in `ascii` and, if `others` is set, of all characters beyond ASCII. With it, whole subtrees of
/// the vocabulary are accepted without visiting their nodes.
struct LoopClass {
  static constexpr uint16_t kForever = 0xFFFF;
  std::array<uint64_t, 2> ascii = {0, 0};
  uint16_t length = 0;  // 0 if nothing is known
  bool others = false;
};

class Program {
 public:
  struct Call {
    RuleId rule = 0;
    StateId to = 0;     // the state after the call
    bool tail = false;  // nothing follows in this rule, so the callee returns to the caller's caller
  };
  struct RuleInfo {
    std::string name;
    StateId start = 0;
    int32_t order = 0;  // rules that this one may call first have a larger order
    ByteSet first;      // bytes with which its text can begin
    ByteSet follow;     // bytes that can follow its text, for any caller
    /// Whether the rule is a JSON string of `min` to `max` characters. Its states are those of StringProgram
    /// (string_tokens.h) in the same order; its thread counts the characters that have begun.
    bool is_string = false;
    int min = 0;
    int max = kUnbounded;
  };

  /// Builds the program for the texts of `root`.
  static absl::StatusOr<Program> Build(const Expressions& expressions, RuleId root,
                                       const GrammarLimits& limits);

  StateId Next(StateId state, uint8_t byte) const {
    return table_[static_cast<size_t>(state) * classes_ + class_of_[byte]];
  }
  bool IsFinal(StateId state) const { return flags_[static_cast<size_t>(state)] & kFinal; }
  /// Whether the state has only byte edges, and is neither final nor counting.
  bool IsPlain(StateId state) const { return flags_[static_cast<size_t>(state)] & kPlain; }
  /// Whether the state is between two characters of a string whose length has bounds.
  bool IsCounting(StateId state) const { return flags_[static_cast<size_t>(state)] & kCounting; }
  /// Whether nothing follows the state in its rule.
  bool IsLast(StateId state) const { return flags_[static_cast<size_t>(state)] & kLast; }
  absl::Span<const Call> Calls(StateId state) const {
    const auto s = static_cast<size_t>(state);
    return {calls_.data() + call_begin_[s], call_begin_[s + 1] - call_begin_[s]};
  }
  RuleId RuleOf(StateId state) const { return rule_of_[static_cast<size_t>(state)]; }
  const LoopClass& Loop(StateId state) const { return loops_[static_cast<size_t>(state)]; }
  const RuleInfo& rule(RuleId id) const { return rules_[static_cast<size_t>(id)]; }
  StateId start() const { return rules_[0].start; }
  size_t states() const { return flags_.size(); }
  size_t rules() const { return rules_.size(); }
  size_t bytes() const;

 private:
  enum : uint8_t { kFinal = 1, kPlain = 2, kLast = 4, kCounting = 8 };
  friend class ProgramBuilder;

  void FindLoops();
  bool LeadsBackByOthers(StateId from, StateId to) const;

  size_t classes_ = 1;
  std::array<uint8_t, 256> class_of_ = {};
  std::vector<StateId> table_;  // [state][byte class]
  std::vector<uint8_t> flags_;
  std::vector<uint32_t> call_begin_;
  std::vector<Call> calls_;
  std::vector<RuleId> rule_of_;
  std::vector<LoopClass> loops_;
  std::vector<RuleInfo> rules_;
};

}  // namespace numoe::text::grammar
