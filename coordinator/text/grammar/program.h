// Program: a grammar ready to run, a pushdown automaton over bytes as flat tables.
//
// Each rule is a deterministic automaton over bytes and calls; states of all rules share one numbering. Every
// state can reach the end of its rule, so whatever was accepted so far can be completed. No rule calls
// itself, directly or through others, before it has read a byte: `order` sorts callers before what they call
// first. Built once, then immutable and thread-safe. Errors: no text matches, left recursion (with the rules'
// names), limits.
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

/// Text that surely keeps the automaton going: up to `length` characters of `ascii` and, where `others`, of
/// everything beyond ASCII, in any order. Lets whole subtrees of the vocabulary be accepted at once.
struct LoopClass {
  static constexpr uint16_t kForever = 0xFFFF;
  std::array<uint64_t, 2> ascii = {0, 0};
  uint16_t length = 0;  // 0: nothing known
  bool others = false;
};

class Program {
 public:
  struct Call {
    RuleId rule = 0;
    StateId to = 0;     // state after the call
    bool tail = false;  // nothing follows in this rule: the callee returns to the caller's caller
  };
  struct RuleInfo {
    std::string name;
    StateId start = 0;
    int32_t order = 0;  // a rule called first by this one has a larger order
    ByteSet first;      // bytes its text can begin with
    ByteSet follow;     // bytes that can come after its text, in any place
    /// A JSON string of `min` to `max` characters. Its states are those of StringProgram (string_tokens.h),
    /// in the same order; the characters begun are counted by its thread.
    bool is_string = false;
    int min = 0;
    int max = kUnbounded;
  };

  /// What `root` matches.
  static absl::StatusOr<Program> Build(const Expressions& expressions, RuleId root,
                                       const GrammarLimits& limits);

  StateId Next(StateId state, uint8_t byte) const {
    return table_[static_cast<size_t>(state) * classes_ + class_of_[byte]];
  }
  bool IsFinal(StateId state) const { return flags_[static_cast<size_t>(state)] & kFinal; }
  /// Neither final nor calling nor counting: leads on by bytes alone.
  bool IsPlain(StateId state) const { return flags_[static_cast<size_t>(state)] & kPlain; }
  /// Between the characters of a string whose length has bounds.
  bool IsCounting(StateId state) const { return flags_[static_cast<size_t>(state)] & kCounting; }
  /// Nothing follows it in its rule.
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
