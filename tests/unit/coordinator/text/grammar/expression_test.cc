// Expressions are simplified when they are made.
#include "coordinator/text/grammar/expression.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

TEST(ExpressionsTest, SequencesDropEmptyPartsAndNeverMatchIfAPartDoesNot) {
  Expressions e;
  const ExprId a = e.Literal("a"), b = e.Literal("b");
  EXPECT_EQ(e.Sequence({e.Empty(), a, e.Literal("")}), a);
  EXPECT_EQ(e.at(e.Sequence({})).kind, ExprKind::kEmpty);
  EXPECT_THAT(e.at(e.Sequence({a, e.Empty(), b})).parts, ::testing::ElementsAre(a, b));
  EXPECT_TRUE(e.IsNever(e.Sequence({a, e.Never()})));
}

TEST(ExpressionsTest, ChoicesDropPartsThatNeverMatch) {
  Expressions e;
  const ExprId a = e.Literal("a"), b = e.Literal("b");
  EXPECT_EQ(e.Choice({e.Never(), a}), a);
  EXPECT_TRUE(e.IsNever(e.Choice({})));
  EXPECT_TRUE(e.IsNever(e.Choice({e.Never()})));
  EXPECT_THAT(e.at(e.Choice({a, e.Never(), b})).parts, ::testing::ElementsAre(a, b));
  EXPECT_EQ(e.at(e.Choice({a, e.Empty()})).parts.size(), 2u) << "the empty text is an alternative";
}

TEST(ExpressionsTest, RepetitionsOfNothing) {
  Expressions e;
  const ExprId a = e.Literal("a");
  EXPECT_EQ(e.Repeat(a, 1, 1), a);
  EXPECT_EQ(e.at(e.Repeat(a, 0, 0)).kind, ExprKind::kEmpty);
  EXPECT_EQ(e.at(e.Repeat(e.Never(), 0, kUnbounded)).kind, ExprKind::kEmpty);
  EXPECT_TRUE(e.IsNever(e.Repeat(e.Never(), 1, 5)));
  EXPECT_EQ(e.at(e.Optional(a)).max, 1);
}

TEST(ExpressionsTest, NoCharactersNeverMatch) {
  Expressions e;
  EXPECT_TRUE(e.IsNever(e.Chars({})));
  EXPECT_EQ(e.at(e.Chars({{'a', 'b'}})).kind, ExprKind::kChars);
}

TEST(ExpressionsTest, GraphsDropEdgesThatNeverMatch) {
  Expressions e;
  const ExprId a = e.Literal("a");
  const Expr graph = e.at(e.Graph({{0, 1, a}, {1, 2, e.Never()}, {0, 2, a}}, 3, 2));
  ASSERT_EQ(graph.edges.size(), 2u);
  EXPECT_EQ(graph.edges[1].to, 2);
  EXPECT_EQ(graph.parts.size(), 2u);
  EXPECT_DEATH(e.Graph({{0, 3, a}}, 3, 2), "edge.to < nodes");
}

TEST(ExpressionsTest, StringRulesHaveTheirBounds) {
  Expressions e;
  const RuleId rule = e.AddRule("s", true);
  EXPECT_FALSE(e.rules()[0].is_string);
  e.SetString(rule, e.Literal("x"), 2, 5);
  EXPECT_TRUE(e.rules()[0].is_string);
  EXPECT_EQ(e.rules()[0].min, 2);
  EXPECT_EQ(e.rules()[0].max, 5);
}

}  // namespace
}  // namespace numoe::text::grammar
