// The translation of expressions into automata, the rules that may be empty, and the limits.
#include <functional>

#include "coordinator/text/grammar/automaton.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

absl::StatusOr<std::shared_ptr<const Dfa>> MachineOf(const std::function<ExprId(Expressions&)>& body,
                                                     const GrammarLimits& limits = {}) {
  Expressions expressions;
  const ExprId expression = body(expressions);
  return CompileMachine(expressions, expression, limits);
}

void ExpectMatches(const std::function<ExprId(Expressions&)>& body, std::vector<std::string> matching,
                   std::vector<std::string> others) {
  const auto machine = MachineOf(body);
  ASSERT_TRUE(machine.ok()) << machine.status();
  for (const std::string& text : matching) EXPECT_TRUE(Matches(**machine, text)) << text;
  for (const std::string& text : others) EXPECT_FALSE(Matches(**machine, text)) << text;
}

TEST(NfaTest, EveryKindOfExpression) {
  ExpectMatches([](Expressions& e) { return e.Empty(); }, {""}, {"a"});
  ExpectMatches([](Expressions& e) { return e.Literal("ab"); }, {"ab"}, {"a", "abc"});
  ExpectMatches(
      [](Expressions& e) {
        return e.Chars({{'a', 'b'}, {0x65E5, 0x65E5}});
      },
      {"a", "日"}, {"c", "本", "\xE6"});
  ExpectMatches(
      [](Expressions& e) {
        return e.Sequence({e.Literal("a"), e.Choice({e.Literal("b"), e.Literal("c")})});
      },
      {"ab", "ac"}, {"a", "abc"});
  ExpectMatches([](Expressions& e) { return e.Repeat(e.Literal("ab"), 2, 3); }, {"abab", "ababab"},
                {"ab", "abababab", "aba"});
  ExpectMatches([](Expressions& e) { return e.Repeat(e.Literal("a"), 1, kUnbounded); }, {"a", "aaaa"}, {""});
  ExpectMatches(
      [](Expressions& e) {
        return e.Graph(
            {{0, 1, e.Literal("a")}, {1, 2, e.Literal("b")}, {1, 1, e.Literal("x")}, {0, 2, e.Literal("c")}},
            3, 2);
      },
      {"ab", "axxb", "c"}, {"a", "xb", "cb"});
}

TEST(NfaTest, AnchorsMatchAtTheEndsOfTheText) {
  ExpectMatches(
      [](Expressions& e) {
        return e.Sequence({e.Anchor(ExprKind::kBegin), e.Literal("a"), e.Anchor(ExprKind::kEnd)});
      },
      {"a"}, {"aa"});
  ExpectMatches(
      [](Expressions& e) {
        return e.Choice(
            {e.Sequence({e.Literal("a"), e.Anchor(ExprKind::kBegin), e.Literal("b")}), e.Literal("c")});
      },
      {"c"}, {"ab"});
}

TEST(NfaTest, RulesThatMayBeEmpty) {
  Expressions e;
  const RuleId text = e.AddRule("text", true), maybe = e.AddRule("maybe", true),
               both = e.AddRule("both", true), self = e.AddRule("self", true);
  e.SetBody(text, e.Literal("a"));
  e.SetBody(maybe, e.Optional(e.Call(text)));
  e.SetBody(both, e.Sequence({e.Call(maybe), e.Repeat(e.Call(text), 0, 5)}));
  e.SetBody(self, e.Sequence({e.Call(self), e.Literal("b")}));
  const auto nullable = NullableRules(e, {});
  ASSERT_TRUE(nullable.ok()) << nullable.status();
  EXPECT_THAT(*nullable, ::testing::ElementsAre(false, true, true, false));
}

TEST(NfaTest, LimitsAreNamed) {
  EXPECT_THAT(
      MachineOf([](Expressions& e) { return e.Repeat(e.Literal("ab"), 1000, 1000); }, {.nfa_states = 500})
          .status()
          .ToString(),
      ::testing::HasSubstr("needs more than 500 states before determinisation"));
}

}  // namespace
}  // namespace numoe::text::grammar
