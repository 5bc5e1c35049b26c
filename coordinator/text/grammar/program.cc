#include "coordinator/text/grammar/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/grammar/inlining.h"

namespace numoe::text::grammar {

class ProgramBuilder {
 public:
  ProgramBuilder(const Expressions& expressions, const GrammarLimits& limits)
      : expressions_(expressions), limits_(limits) {}

  absl::StatusOr<Program> Build(RuleId root) {
    NUMOE_CHECK(0 <= root && static_cast<size_t>(root) < expressions_.rules().size());
    ASSIGN_OR_RETURN(treatment_.nullable, NullableRules(expressions_, limits_));
    treatment_.inlined = ChooseInlined(expressions_, root, limits_);
    RETURN_IF_ERROR(MakeAutomata(root));
    NUMOE_CHECK_EQ(automata_.size(), program_.rules_.size());
    RemoveDeadEnds();
    if (automata_[0].empty())
      return absl::InvalidArgumentError(
          "no text at all matches, because a required part can never be completed; look for contradictory "
          "constraints and for recursion without an end");
    KeepReachable();
    RETURN_IF_ERROR(SortByFirstCalls());
    Pack();
    MarkCounting();
    FindByteSets();
    program_.FindLoops();
    return std::move(program_);
  }

 private:
  absl::Status MakeAutomata(RuleId root) {
    new_id_.assign(expressions_.rules().size(), -1);
    std::vector<RuleId> queue;
    const auto id_of = [&](RuleId rule) {
      RuleId& id = new_id_[static_cast<size_t>(rule)];
      if (id < 0) {
        id = static_cast<RuleId>(queue.size());
        queue.push_back(rule);
      }
      return id;
    };
    id_of(root);
    size_t states = 0;
    for (size_t i = 0; i < queue.size(); ++i) {
      const Rule& rule = expressions_.rules()[static_cast<size_t>(queue[i])];
      Nfa nfa;
      const int32_t start = nfa.AddState();
      ASSIGN_OR_RETURN(const int32_t accept, Lower(expressions_, rule.body, treatment_, limits_, nfa, start));
      ASSIGN_OR_RETURN(Dfa dfa, Determinise(nfa, start, accept, limits_));
      states += dfa.states.size();
      if (states > limits_.dfa_states) {
        return absl::ResourceExhaustedError(
            fmt::format("the grammar is too large: it needs more than {} states", limits_.dfa_states));
      }
      for (DfaState& state : dfa.states)
        for (CallEdge& call : state.calls) call.rule = id_of(call.rule);
      automata_.push_back(std::move(dfa));
      program_.rules_.push_back(
          {.name = rule.name, .is_string = rule.is_string, .min = rule.min, .max = rule.max});
    }
    return absl::OkStatus();
  }

  // Removes parts that can never be completed, such as a recursion without an end.
  void RemoveDeadEnds() {
    std::vector<std::vector<size_t>> callers(automata_.size());
    std::vector<size_t> queue;
    for (size_t r = 0; r < automata_.size(); ++r) {
      queue.push_back(r);
      for (const DfaState& state : automata_[r].states)
        for (const CallEdge& call : state.calls) callers[static_cast<size_t>(call.rule)].push_back(r);
    }
    std::vector<bool> productive(automata_.size(), false);
    while (!queue.empty()) {
      const size_t r = queue.back();
      queue.pop_back();
      if (productive[r] || !ReachesEnd(automata_[r], productive)[0]) continue;
      productive[r] = true;
      queue.insert(queue.end(), callers[r].begin(), callers[r].end());
    }
    for (Dfa& dfa : automata_) Trim(dfa, productive);
  }

  // Keeps only the rules that are still called, and renumbers them; 0 remains the root.
  void KeepReachable() {
    std::vector<RuleId> renumbered(automata_.size(), -1);
    std::vector<size_t> queue = {0};
    renumbered[0] = 0;
    for (size_t i = 0; i < queue.size(); ++i) {
      for (DfaState& state : automata_[queue[i]].states) {
        for (CallEdge& call : state.calls) {
          RuleId& id = renumbered[static_cast<size_t>(call.rule)];
          if (id < 0) {
            id = static_cast<RuleId>(queue.size());
            queue.push_back(static_cast<size_t>(call.rule));
          }
          call.rule = id;
        }
      }
    }
    std::vector<Dfa> kept;
    std::vector<Program::RuleInfo> rules;
    for (const size_t r : queue) {
      kept.push_back(std::move(automata_[r]));
      rules.push_back(std::move(program_.rules_[r]));
    }
    automata_ = std::move(kept);
    program_.rules_ = std::move(rules);
  }

  absl::Status SortByFirstCalls();
  void Pack();
  void MarkCounting();
  void FindByteSets();
  ByteSet FirstOf(StateId state) const;

  const Expressions& expressions_;
  const GrammarLimits& limits_;
  RuleTreatment treatment_;
  std::vector<RuleId> new_id_;  // by the expressions' RuleId
  std::vector<Dfa> automata_;   // by the program's RuleId
  std::vector<RuleId> sorted_;  // by order
  Program program_;
};

absl::Status ProgramBuilder::SortByFirstCalls() {
  enum Colour : uint8_t { kNew, kOpen, kDone };
  std::vector<Colour> colour(automata_.size(), kNew);
  struct Visit {
    RuleId rule;
    size_t next = 0;
  };
  for (size_t r = 0; r < automata_.size(); ++r) {
    if (colour[r] != kNew) continue;
    std::vector<Visit> visits = {{static_cast<RuleId>(r)}};
    colour[r] = kOpen;
    while (!visits.empty()) {
      Visit& visit = visits.back();
      const std::vector<CallEdge>& calls = automata_[static_cast<size_t>(visit.rule)].states[0].calls;
      if (visit.next == calls.size()) {
        colour[static_cast<size_t>(visit.rule)] = kDone;
        sorted_.push_back(visit.rule);
        visits.pop_back();
        continue;
      }
      const RuleId callee = calls[visit.next++].rule;
      if (colour[static_cast<size_t>(callee)] == kOpen) {
        return absl::InvalidArgumentError(
            fmt::format("rule {} begins with itself, directly or through other rules (left recursion); write "
                        "it as a repetition, as in a ::= b (\"+\" b)*",
                        program_.rules_[static_cast<size_t>(callee)].name));
      }
      if (colour[static_cast<size_t>(callee)] == kNew) {
        colour[static_cast<size_t>(callee)] = kOpen;
        visits.push_back({callee});
      }
    }
  }
  std::reverse(sorted_.begin(), sorted_.end());
  NUMOE_CHECK_EQ(sorted_.size(), automata_.size()) << "every rule has exactly one place in the order";
  for (size_t i = 0; i < sorted_.size(); ++i)
    program_.rules_[static_cast<size_t>(sorted_[i])].order = static_cast<int32_t>(i);
  return absl::OkStatus();
}

void ProgramBuilder::Pack() {
  std::bitset<257> borders;
  borders.set(0x80);  // loop classes distinguish ASCII from other characters
  std::vector<StateId> base;
  StateId states = 0;
  for (const Dfa& dfa : automata_) {
    base.push_back(states);
    states += static_cast<StateId>(dfa.states.size());
    for (const DfaState& state : dfa.states) {
      for (const ByteEdge& edge : state.bytes) {
        borders.set(edge.low);
        borders.set(edge.high + 1u);
      }
    }
  }
  std::vector<uint8_t> example = {0};  // one byte of each class
  for (unsigned b = 1; b < 256; ++b) {
    if (borders[b]) example.push_back(static_cast<uint8_t>(b));
    program_.class_of_[b] = static_cast<uint8_t>(example.size() - 1);
  }
  program_.classes_ = example.size();
  NUMOE_CHECK_LE(program_.classes_, 256u);
  program_.table_.assign(static_cast<size_t>(states) * program_.classes_, kNoState);
  program_.call_begin_.push_back(0);
  for (size_t r = 0; r < automata_.size(); ++r) {
    program_.rules_[r].start = base[r];
    for (const DfaState& state : automata_[r].states) {
      StateId* row = program_.table_.data() + program_.flags_.size() * program_.classes_;
      for (const ByteEdge& edge : state.bytes)
        for (unsigned c = program_.class_of_[edge.low]; c <= program_.class_of_[edge.high]; ++c)
          row[c] = base[r] + edge.to;
      for (const CallEdge& call : state.calls) {
        const DfaState& after = automata_[r].states[static_cast<size_t>(call.to)];
        program_.calls_.push_back(
            {call.rule, base[r] + call.to, after.final && after.bytes.empty() && after.calls.empty()});
      }
      program_.call_begin_.push_back(static_cast<uint32_t>(program_.calls_.size()));
      program_.rule_of_.push_back(static_cast<RuleId>(r));
      const bool last = state.bytes.empty() && state.calls.empty();
      program_.flags_.push_back(
          static_cast<uint8_t>((state.final ? Program::kFinal : 0) | (last ? Program::kLast : 0) |
                               (!state.final && state.calls.empty() ? Program::kPlain : 0)));
    }
  }
}

// Marks the state between two characters in strings with bounds. There every byte except a quote begins a
// character.
void ProgramBuilder::MarkCounting() {
  for (const Program::RuleInfo& rule : program_.rules_) {
    if (!rule.is_string || (rule.min == 0 && rule.max == kUnbounded)) continue;
    NUMOE_CHECK(program_.Next(rule.start, '"') != kNoState) << "a string begins with a quote";
    uint8_t& flags = program_.flags_[static_cast<size_t>(program_.Next(rule.start, '"'))];
    flags = static_cast<uint8_t>((flags & ~Program::kPlain) | Program::kCounting);
  }
}

ByteSet ProgramBuilder::FirstOf(StateId state) const {
  ByteSet first;
  for (unsigned b = 0; b < 256; ++b)
    if (program_.Next(state, static_cast<uint8_t>(b)) != kNoState) first.set(b);
  for (const Program::Call& call : program_.Calls(state)) first |= program_.rule(call.rule).first;
  return first;
}

void ProgramBuilder::FindByteSets() {
  NUMOE_CHECK_EQ(program_.flags_.size(), program_.rule_of_.size());
  NUMOE_CHECK_EQ(program_.call_begin_.size(), program_.flags_.size() + 1);
  for (auto r = sorted_.rbegin(); r != sorted_.rend(); ++r) {  // callees first
    Program::RuleInfo& rule = program_.rules_[static_cast<size_t>(*r)];
    rule.first = FirstOf(rule.start);
  }
  std::vector<std::pair<RuleId, RuleId>> inherited;  // the first is followed by whatever follows the second
  for (StateId s = 0; s < static_cast<StateId>(program_.states()); ++s) {
    for (const Program::Call& call : program_.Calls(s)) {
      program_.rules_[static_cast<size_t>(call.rule)].follow |= FirstOf(call.to);
      if (program_.IsFinal(call.to)) inherited.emplace_back(call.rule, program_.RuleOf(s));
    }
  }
  std::sort(inherited.begin(), inherited.end());
  inherited.erase(std::unique(inherited.begin(), inherited.end()), inherited.end());
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [to, from] : inherited) {
      ByteSet& follow = program_.rules_[static_cast<size_t>(to)].follow;
      const ByteSet merged = follow | program_.rules_[static_cast<size_t>(from)].follow;
      changed |= merged != follow;
      follow = merged;
    }
  }
}

absl::StatusOr<Program> Program::Build(const Expressions& expressions, RuleId root,
                                       const GrammarLimits& limits) {
  return ProgramBuilder(expressions, limits).Build(root);
}

size_t Program::bytes() const {
  return table_.size() * sizeof(StateId) + flags_.size() * (sizeof(RuleId) + sizeof(LoopClass) + 5) +
         calls_.size() * sizeof(Call) + rules_.size() * sizeof(RuleInfo);
}

// Returns whether every character beyond ASCII leads from `from` to `to`. Follows the well-formed byte
// sequences of Unicode's table 3-7. Most first bytes of a range lead to the same state, so each different
// state is followed once.
bool Program::LeadsBackByOthers(StateId from, StateId to) const {
  struct Pattern {
    uint8_t first_low, first_high, second_low, second_high;
    int more;  // continuation bytes after the second
  };
  constexpr Pattern kPatterns[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1},
                                   {0xE1, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1},
                                   {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                                   {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
  const auto only_target = [this](StateId state, uint8_t low, uint8_t high) -> std::optional<StateId> {
    const StateId target = Next(state, low);
    for (unsigned b = low; b <= high; ++b)
      if (Next(state, static_cast<uint8_t>(b)) != target) return std::nullopt;
    if (target == kNoState || !IsPlain(state)) return std::nullopt;
    return target;
  };
  for (const Pattern& p : kPatterns) {
    for (unsigned first = p.first_low; first <= p.first_high; ++first) {
      const StateId lead = Next(from, static_cast<uint8_t>(first));
      if (lead == kNoState) return false;
      if (first > p.first_low && lead == Next(from, static_cast<uint8_t>(first - 1))) continue;
      std::optional<StateId> at = only_target(lead, p.second_low, p.second_high);
      for (int i = 0; at.has_value() && i < p.more; ++i) at = only_target(*at, 0x80, 0xBF);
      if (at != to) return false;
    }
  }
  return true;
}

// A state's loop class has the ASCII bytes that lead to its most frequent successor. Its length, the number
// of such characters that certainly can follow, is one more than that of the successor if the successor
// accepts the same class.
void Program::FindLoops() {
  std::vector<StateId> successor(states(), kNoState);
  loops_.assign(states(), {});
  std::vector<int> votes(states(), 0);
  for (StateId s = 0; s < static_cast<StateId>(states()); ++s) {
    StateId best = kNoState;
    for (unsigned b = 0; b < 0x80; ++b) {
      const StateId next = Next(s, static_cast<uint8_t>(b));
      if (next != kNoState &&
          ++votes[static_cast<size_t>(next)] > (best < 0 ? 0 : votes[static_cast<size_t>(best)]))
        best = next;
    }
    if (best == kNoState) continue;
    successor[static_cast<size_t>(s)] = best;
    LoopClass& loop = loops_[static_cast<size_t>(s)];
    for (unsigned b = 0; b < 0x80; ++b) {
      const StateId next = Next(s, static_cast<uint8_t>(b));
      if (next == best) loop.ascii[b / 64] |= uint64_t{1} << (b % 64);
      if (next != kNoState) votes[static_cast<size_t>(next)] = 0;
    }
    loop.others = LeadsBackByOthers(s, best);
    loop.length = LoopClass::kForever;
  }
  NUMOE_DCHECK_EQ(loops_.size(), successor.size());
  const auto covers = [](const LoopClass& a, const LoopClass& b) {
    return (b.ascii[0] & ~a.ascii[0]) == 0 && (b.ascii[1] & ~a.ascii[1]) == 0 && (a.others || !b.others);
  };
  // The lengths begin with "forever" and are lowered. A round may settle only one state of a chain, so the
  // number of rounds is bounded, and lengths that are not settled then count as unknown.
  constexpr int kRounds = 300;
  bool changed = true;
  for (int round = 0; changed && round < kRounds; ++round) {
    changed = false;
    for (size_t s = states(); s-- > 0;) {  // successors mostly have larger numbers
      if (successor[s] == kNoState) continue;
      const LoopClass& next = loops_[static_cast<size_t>(successor[s])];
      const uint16_t rest = covers(next, loops_[s]) ? next.length : uint16_t{0};
      const uint16_t length = rest == LoopClass::kForever ? rest : static_cast<uint16_t>(rest + 1);
      if (length < loops_[s].length) {
        loops_[s].length = length;
        changed = true;
      }
    }
  }
  if (changed)
    for (LoopClass& loop : loops_)
      if (loop.length == LoopClass::kForever) loop.length = 0;
}

}  // namespace numoe::text::grammar
