// Programs: their tables, the errors of Build, and loop classes.
#include "coordinator/text/grammar/program.h"

#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

absl::StatusOr<Program> BuiltFrom(const std::function<ExprId(Expressions&, RuleId root)>& body,
                                  const GrammarLimits& limits = {}) {
  Expressions expressions;
  const RuleId root = expressions.AddRule("root", true);
  expressions.SetBody(root, body(expressions, root));
  return Program::Build(expressions, root, limits);
}

std::string ErrorOf(const std::function<ExprId(Expressions&, RuleId root)>& body,
                    const GrammarLimits& limits = {}) {
  return std::string(BuiltFrom(body, limits).status().message());
}

TEST(ProgramTest, BytesLeadToTheEnd) {
  const auto program = BuiltFrom([](Expressions& e, RuleId) {
    return e.Sequence({e.Literal("a"), e.Optional(e.Literal("b"))});
  });
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->Next(program->start(), 'b'), kNoState);
  const StateId after_a = program->Next(program->start(), 'a');
  ASSERT_NE(after_a, kNoState);
  EXPECT_TRUE(program->IsFinal(after_a));
  EXPECT_FALSE(program->IsPlain(after_a));
  EXPECT_TRUE(program->IsPlain(program->start()));
  EXPECT_TRUE(program->IsLast(program->Next(after_a, 'b')));
  EXPECT_EQ(program->rule(0).first, ByteSet().set('a'));
}

TEST(ProgramTest, DeadEndsAreLeftOut) {
  const auto program = BuiltFrom([](Expressions& e, RuleId) {
    const RuleId endless = e.AddRule("endless", true);
    e.SetBody(endless, e.Sequence({e.Literal("x"), e.Call(endless)}));
    return e.Choice({e.Literal("a"), e.Call(endless)});
  });
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(program->Calls(program->start()).empty());
}

TEST(ProgramTest, ErrorsNameTheReason) {
  EXPECT_THAT(ErrorOf([](Expressions& e, RuleId) { return e.Never(); }),
              ::testing::HasSubstr("no text at all matches"));
  EXPECT_THAT(ErrorOf([](Expressions& e, RuleId root) {
                return e.Sequence({e.Literal("a"), e.Call(root)});
              }),
              ::testing::HasSubstr("no text at all matches"));
  EXPECT_THAT(
      ErrorOf([](Expressions& e, RuleId root) {
        return e.Choice({e.Literal("a"), e.Sequence({e.Call(root), e.Literal("b")})});
      }),
      ::testing::HasSubstr("rule root begins with itself, directly or through other rules (left recursion)"));
  EXPECT_THAT(
      ErrorOf([](Expressions& e, RuleId) { return e.Literal(std::string(100, 'a')); }, {.dfa_states = 50}),
      ::testing::HasSubstr("needs more than 50 states"));
}

TEST(ProgramTest, CallersComeBeforeTheRulesThatTheyCallFirst) {
  const auto program = BuiltFrom([](Expressions& e, RuleId) {
    const RuleId inner = e.AddRule("inner", true), outer = e.AddRule("outer", true);
    e.SetBody(inner, e.Literal("i"));
    e.SetBody(outer, e.Sequence({e.Call(inner), e.Literal("o")}));
    return e.Sequence({e.Call(outer), e.Call(inner)});
  });
  ASSERT_TRUE(program.ok()) << program.status();
  const auto calls = program->Calls(program->start());
  ASSERT_EQ(calls.size(), 1u);
  const Program::RuleInfo& outer = program->rule(calls[0].rule);
  EXPECT_EQ(outer.name, "outer");
  EXPECT_GT(outer.order, program->rule(0).order);
  const auto inner = program->Calls(outer.start);
  ASSERT_EQ(inner.size(), 1u);
  EXPECT_GT(program->rule(inner[0].rule).order, outer.order);
  EXPECT_EQ(outer.follow, ByteSet().set('i'));
  const auto last = program->Calls(calls[0].to);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_TRUE(last[0].tail) << "nothing follows the second call";
}

TEST(ProgramTest, LoopsOfCharactersAreKnown) {
  const auto program = BuiltFrom([](Expressions& e, RuleId) {
    return e.Sequence(
        {e.Repeat(e.Chars(CodepointSet({{'"', '"'}}).Complement()), 0, kUnbounded), e.Literal("\"")});
  });
  ASSERT_TRUE(program.ok()) << program.status();
  const LoopClass& loop = program->Loop(program->start());
  EXPECT_EQ(loop.length, LoopClass::kForever);
  EXPECT_TRUE(loop.others);
  EXPECT_TRUE(loop.ascii['a' / 64] >> ('a' % 64) & 1);
  EXPECT_FALSE(loop.ascii['"' / 64] >> ('"' % 64) & 1);
}

}  // namespace
}  // namespace numoe::text::grammar
