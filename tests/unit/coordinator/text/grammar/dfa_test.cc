// Deterministic automata: the subset construction, Boolean operations, and trimming.
#include "coordinator/text/grammar/automaton.h"
#include "coordinator/text/grammar/json_syntax.h"
#include "coordinator/text/grammar/regex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

std::shared_ptr<const Dfa> OfRegex(std::string_view pattern) {
  auto machine = CompileRegex(pattern, RegexMatch::kWhole, EncodePlain, {});
  EXPECT_TRUE(machine.ok()) << machine.status();
  return machine.ok() ? *machine : std::make_shared<const Dfa>();
}

TEST(DfaTest, BothAndFirstOnly) {
  const auto short_ones = OfRegex("[ab]{0,3}"), with_a = OfRegex("[ab]*a[ab]*");
  const auto both = Combine(*short_ones, *with_a, Combination::kBoth, {});
  const auto only = Combine(*short_ones, *with_a, Combination::kFirstOnly, {});
  ASSERT_TRUE(both.ok() && only.ok());
  for (const std::string_view text : {"", "b", "a", "bab", "bbb", "abab", "c"}) {
    const bool first = Matches(*short_ones, text), second = Matches(*with_a, text);
    EXPECT_EQ(Matches(**both, text), first && second) << text;
    EXPECT_EQ(Matches(**only, text), first && !second) << text;
  }
  const auto none = Combine(*OfRegex("a+"), *OfRegex("b+"), Combination::kBoth, {});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE((*none)->empty()) << "no text matches both";
}

TEST(DfaTest, EdgesAreSortedAndDisjoint) {
  const auto machine = OfRegex("[a-f]x|[c-z]y|é|日");
  for (const DfaState& state : machine->states)
    for (size_t i = 0; i + 1 < state.bytes.size(); ++i)
      EXPECT_LT(state.bytes[i].high, state.bytes[i + 1].low);
  EXPECT_TRUE(Matches(*machine, "dx"));
  EXPECT_TRUE(Matches(*machine, "dy"));
  EXPECT_FALSE(Matches(*machine, "ay"));
}

TEST(DfaTest, TheErrorForTooManyStatesNamesTheLimit) {
  Nfa nfa;
  const int32_t start = nfa.AddState();
  int32_t at = start;
  for (int i = 0; i < 20; ++i) {
    const int32_t next = nfa.AddState();
    nfa.AddByte(at, 'a', 'a', next);
    at = next;
  }
  EXPECT_THAT(Determinise(nfa, start, at, {.dfa_states = 10}).status().ToString(),
              ::testing::HasSubstr("needs more than 10 states"));
  const auto whole = Determinise(nfa, start, at, {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->states.size(), 21u);
}

TEST(DfaTest, TrimmingKeepsStatesBetweenTheStartAndAnEnd) {
  Dfa dfa;
  dfa.states.resize(5);
  dfa.states[0].bytes = {{'a', 'a', 1}, {'b', 'b', 2}};
  dfa.states[0].calls = {{.rule = 0, .to = 1}, {.rule = 1, .to = 1}};
  dfa.states[1].final = true;
  dfa.states[2].bytes = {{'c', 'c', 2}};  // never ends
  dfa.states[3].bytes = {{'d', 'd', 1}};  // nothing leads here
  EXPECT_THAT(ReachesEnd(dfa, {true, false}), ::testing::ElementsAre(true, true, false, true, false));
  Trim(dfa, {true, false});
  ASSERT_EQ(dfa.states.size(), 2u);
  ASSERT_EQ(dfa.states[0].bytes.size(), 1u);
  EXPECT_EQ(dfa.states[0].bytes[0].low, 'a');
  ASSERT_EQ(dfa.states[0].calls.size(), 1u);
  EXPECT_EQ(dfa.states[0].calls[0].rule, 0);
  dfa.states[1].final = false;
  Trim(dfa, {true, false});
  EXPECT_TRUE(dfa.empty());
}

}  // namespace
}  // namespace numoe::text::grammar
