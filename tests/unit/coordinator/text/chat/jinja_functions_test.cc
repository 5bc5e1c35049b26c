// The global functions of templates.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaFunctionsTest, Range) {
  EXPECT_EQ(Printed("range(3) | join(',')"), "0,1,2");
  EXPECT_EQ(Printed("range(1, 4) | join(',')"), "1,2,3");
  EXPECT_EQ(Printed("range(5, 0, -2) | join(',')"), "5,3,1");
  EXPECT_EQ(Printed("range(3, 1) | join(',')"), "");
  EXPECT_EQ(Printed("range(100000) | length"), "100000");
}

TEST(JinjaFunctionsTest, InvalidRangesAreRefused) {
  EXPECT_THAT(Printed("range()"), HasSubstr("range: expected the argument 'start'"));
  EXPECT_THAT(Printed("range(1, 2, 3, 4)"), HasSubstr("range takes at most 3 arguments"));
  EXPECT_THAT(Printed("range('3')"), HasSubstr("range: expected an integer, found string"));
  EXPECT_THAT(Printed("range(1.5)"), HasSubstr("range: expected an integer, found float"));
  EXPECT_THAT(Printed("range(1, 5, 0)"), HasSubstr("range: step is 0"));
  EXPECT_THAT(Printed("range(100001)"), HasSubstr("range: more than 100000 numbers"));
}

TEST(JinjaFunctionsTest, ARangeEndsBeforeNumbersThatExceed64Bits) {
  EXPECT_EQ(Printed("range(2 ** 62, 2 ** 62 - 1 + 2 ** 62, 2 ** 62) | length"), "1");
  EXPECT_EQ(Printed("range(-(2 ** 62) - 2, -(2 ** 62) - 2 ** 62, -(2 ** 62)) | length"), "1");
}

TEST(JinjaFunctionsTest, DictsAndNamespaces) {
  EXPECT_EQ(Printed("dict({'a': 1}, b=2, a=3)"), "{'a': 3, 'b': 2}");
  EXPECT_EQ(Rendered("{% set n = namespace(a=1) %}{% set n.b = n.a + 1 %}{{ n.b }}"), "2");
  EXPECT_THAT(Rendered("{% set d = dict(a=1) %}{% set d.a = 2 %}"),
              HasSubstr("only namespace() objects can be changed"));
  EXPECT_THAT(Printed("dict([1])"), HasSubstr("cannot iterate over integer"));
}

TEST(JinjaFunctionsTest, ADictIsACopy) {
  EXPECT_EQ(
      Rendered(
          "{% set n = namespace({'a': 1}) %}{% set m = namespace(n) %}{% set m.a = 2 %}{{ n.a }}{{ m.a }}"),
      "12");
}

TEST(JinjaFunctionsTest, RaiseExceptionEndsWithItsMessage) {
  EXPECT_EQ(Rendered("a\n{{ raise_exception('no ' ~ 'tools') }}"), "line 2: the template refuses: no tools");
  EXPECT_EQ(Printed("raise_exception()"), "line 1: the template refuses: ");
}

TEST(JinjaFunctionsTest, TheDateOfToday) {
  EXPECT_EQ(Printed("strftime_now('%%%Y') | length"), "5");
  EXPECT_EQ(Printed("strftime_now() | length"), "10");
  EXPECT_EQ(Printed("strftime_now('x' * 600)"), "") << "text that does not fit is left out";
}

TEST(JinjaFunctionsTest, OtherNamesAreUndefined) {
  EXPECT_THAT(Printed("open('x')"), HasSubstr("'open' is undefined: cannot call it"));
  EXPECT_EQ(Printed("range", {{"range", Value(int64_t{7})}}), "7") << "a variable comes before a function";
}

}  // namespace
}  // namespace numoe::text::jinja
