// Operators: Python's arithmetic, comparisons and slices, and operands that are refused.
#include "coordinator/text/chat/jinja_operators.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaOperatorsTest, IntegersAreFlooredAndSignsFollowTheDivisor) {
  EXPECT_EQ(Printed("[7 // 2, -7 // 2, 7 // -2, -7 // -2]"), "[3, -4, -4, 3]");
  EXPECT_EQ(Printed("[7 % 3, -7 % 3, 7 % -3, -7 % -3, 5 % -1]"), "[1, 2, -2, -1, 0]");
  EXPECT_EQ(Printed("[7 / 2, 6 / 2, 2 ** 10, 2 ** -1, (-1) ** 99, 0 ** 99, 7.5 // 2, -7.5 % 2]"),
            "[3.5, 3.0, 1024, 0.5, -1, 0, 3.0, 0.5]");
}

TEST(JinjaOperatorsTest, ResultsBeyond64BitsAndDivisionsByZeroAreRefused) {
  for (const char* expression : {"2 ** 63", "9 ** 999999999", "2 ** 62 + 2 ** 62", "-(2 ** 62) - 2 ** 62 - 1",
                                 "2 ** 62 * 2", "1 // 0", "1 % 0", "1 / 0", "1.5 / 0", "1.5 % 0"})
    EXPECT_THAT(Printed(expression), HasSubstr("cannot compute")) << expression;
  EXPECT_EQ(Printed("-(2 ** 62) - 2 ** 62"), "-9223372036854775808");
  EXPECT_THAT(Printed("-(-(2 ** 62) - 2 ** 62)"), HasSubstr("integer overflow"));
  EXPECT_THAT(Printed("(-(2 ** 62) - 2 ** 62) // -1"), HasSubstr("cannot compute"));
}

TEST(JinjaOperatorsTest, TextAndLists) {
  EXPECT_EQ(Printed("'a' + 'b' ~ 1 ~ none"), "ab1None");
  EXPECT_EQ(Printed("'ab' * 2 ~ 3 * 'c' ~ 'x' * -1"), "ababccc");
  EXPECT_EQ(Printed("[1] + [2]"), "[1, 2]");
  EXPECT_THAT(Printed("'a' + 1"), HasSubstr("cannot compute string + integer"));
  EXPECT_THAT(Printed("[1] + 'a'"), HasSubstr("cannot compute list + string"));
  EXPECT_THAT(Printed("nothing + 1"), HasSubstr("'nothing' is undefined: cannot compute +"));
}

TEST(JinjaOperatorsTest, AndOrReturnOperandsAndStopEarly) {
  EXPECT_EQ(Printed("(0 or 'x') ~ ('' and 'y') ~ ('' and 'y' or 'z')"), "xz");
  EXPECT_EQ(Printed("1 or raise_exception('never')"), "1");
  EXPECT_EQ(Printed("0 and raise_exception('never')"), "0");
}

TEST(JinjaOperatorsTest, Signs) {
  EXPECT_EQ(Printed("[-1, +1, -1.5, -true, not 1]"), "[-1, 1, -1.5, -1, False]");
  EXPECT_THAT(Printed("-'a'"), HasSubstr("bad operand for unary -: string"));
}

TEST(JinjaOperatorsTest, Comparisons) {
  EXPECT_EQ(Printed("[1 < 2 < 3, 3 > 2 > 2, 1 == 1.0 != 2, 'a' <= 'b', [1, 2] >= [1]]"),
            "[True, False, True, True, True]");
  EXPECT_EQ(Printed("2 < 1 < raise_exception('never')"), "False");
  EXPECT_EQ(Printed("['a' in 'abc', 1 not in [1.0], 'k' in {'k': 0}, 'x' in nothing]"),
            "[True, False, True, False]");
  EXPECT_THAT(Printed("1 < 'a'"), HasSubstr("cannot compare integer < string"));
  EXPECT_THAT(Printed("1 in 'abc'"), HasSubstr("cannot look for integer in a string"));
  EXPECT_THAT(Printed("1 in 2"), HasSubstr("cannot iterate over integer"));
}

TEST(JinjaOperatorsTest, SlicesOfListsAndCharacters) {
  EXPECT_EQ(
      Printed("[[1, 2, 3][1:], [1, 2, 3][:-1], [1, 2, 3][::-1], [1, 2, 3][-2:9], [1, 2, 3][5:], [][::-1]]"),
      "[[2, 3], [1, 2], [3, 2, 1], [2, 3], [], []]");
  EXPECT_EQ(Printed("'äöü'[1:] ~ 'abcdef'[4:0:-2] ~ 'abc'[none:2] ~ 'abc'[:-9:-1]"), "öüecabcba");
  EXPECT_THAT(Printed("[1][::0]"), HasSubstr("slice step is 0"));
  EXPECT_THAT(Printed("[1]['a':]"), HasSubstr("slice bound is string, expected an integer"));
  EXPECT_THAT(Printed("{}[1:]"), HasSubstr("cannot slice mapping"));
}

TEST(JinjaOperatorsTest, AStepBeyond64BitsEndsTheSlice) {
  EXPECT_EQ(Printed("[1, 2, 3][1::2 ** 62 - 1 + 2 ** 62]"), "[2]");
  EXPECT_EQ(Printed("'abc'[1::-(2 ** 62) - 2 ** 62]"), "b");
}

TEST(JinjaOperatorsTest, AnErrorNamesTheCurrentLine) {
  Rendering rendering;
  rendering.At(7);
  EXPECT_FALSE(CanSlice(rendering, Value(int64_t{1})));
  EXPECT_EQ(rendering.status().message(), "line 7: cannot slice integer");
}

TEST(JinjaOperatorsTest, NoneCountsAsAMissingBound) {
  Rendering rendering;
  EXPECT_EQ(SliceBound(rendering, None{}), std::nullopt);
  EXPECT_EQ(SliceBound(rendering, int64_t{3}), 3);
  EXPECT_FALSE(rendering.failed());
  EXPECT_EQ(SliceBound(rendering, Value::Text("3")), std::nullopt);
  EXPECT_TRUE(rendering.failed());
}

}  // namespace
}  // namespace numoe::text::jinja
