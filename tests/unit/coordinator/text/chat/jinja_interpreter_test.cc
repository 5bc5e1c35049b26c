// Statements, scopes and limits of the interpreter, with the line of every error.
#include "coordinator/text/chat/jinja_interpreter.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaInterpreterTest, VariablesOfALoopEndWithIt) {
  EXPECT_EQ(Rendered("{% set a = 1 %}{% for i in [1] %}{% set a = 2 %}{{ a }}{% endfor %}{{ a }}{{ i }}"),
            "21");
  EXPECT_EQ(Rendered("{% if true %}{% set a = 1 %}{% endif %}{{ a }}"), "1") << "an if does not have a scope";
  EXPECT_EQ(Rendered("{% set a %}{% set b = 2 %}{{ b }}{% endset %}{{ a }}{{ b }}"), "2");
}

TEST(JinjaInterpreterTest, LoopsKnowTheirPosition) {
  EXPECT_EQ(Rendered("{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ "
                     "loop.revindex0 }}{{ loop.length }} "
                     "{% endfor %}"),
            "10323 21213 32103 ");
  EXPECT_EQ(Rendered("{% for x in [1, 2, 3] if x != 2 %}{{ loop.previtem }}{{ x }}{{ loop.nextitem }}{{ "
                     "loop.first }}{{ loop.last }} {% endfor %}"),
            "13TrueFalse 13FalseTrue ");
  EXPECT_EQ(
      Rendered(
          "{% for x in [1] %}{% for y in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}"),
      "121");
}

TEST(JinjaInterpreterTest, BreakContinueAndElse) {
  EXPECT_EQ(Rendered("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% elif x == 3 %}{% break %}{% "
                     "endif %}{{ x }}{% else %}none{% endfor %}"),
            "02");
  EXPECT_EQ(Rendered("{% for x in [1] if x > 1 %}{{ x }}{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(Rendered("{% for x in nothing %}{{ x }}{% else %}none{% endfor %}"), "none");
}

TEST(JinjaInterpreterTest, Unpacking) {
  EXPECT_EQ(Rendered("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}{% set x, y = [1, 2] %}{{ "
                     "x }}{{ y }}"),
            "a112");
  EXPECT_EQ(Rendered("\n{% for a, b in [1] %}{% endfor %}"), "line 2: cannot iterate over integer");
  EXPECT_THAT(Rendered("{% set a, b = [1, 2, 3] %}"),
              HasSubstr("cannot unpack list of 3 items into 2 names"));
}

TEST(JinjaInterpreterTest, MacrosSeeTheirArgumentsAndTheTemplatesNames) {
  EXPECT_EQ(
      Rendered("{% set g = 'G' %}{% macro m(a, b='d', c=none) %}{{ a }}{{ b }}{{ c is not none }}{{ g }}{{ i "
               "}}{% endmacro %}"
               "{% for i in [1] %}{{ m(1) }} {{ m(1, c=3, b=2) }}{% endfor %}{{ m(a=4) }}"),
      "1dFalseG 12TrueG4dFalseG");
  EXPECT_THAT(Rendered("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
              HasSubstr("macro m takes 1 arguments, found 2"));
  EXPECT_THAT(Rendered("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("deeper than 200"));
}

TEST(JinjaInterpreterTest, BlocksOfTextAreFiltered) {
  EXPECT_EQ(
      Rendered(
          "{% filter upper | trim %} a {{ 'b' }} {% endfilter %}|{% set x | upper %}c{% endset %}{{ x }}"),
      "A B|C");
  EXPECT_EQ(Rendered("{% generation %}a{% endgeneration %}"), "a");
}

TEST(JinjaInterpreterTest, AttributesAndItems) {
  EXPECT_EQ(Printed("{'a': 1}.a ~ {'a': 1}['a'] ~ [1, 2][-1] ~ 'äb'[0] ~ {1: 'x'}[1.0]"), "112äx");
  EXPECT_EQ(Printed("[{'a': 1}.b, [1][5], 'a'[3], 5 .x] | map('default', '-') | join"), "----");
  EXPECT_EQ(Printed("{'items': 3}['items'] ~ {'items': 3}.items() | length"), "31");
  EXPECT_EQ(Rendered("\n\n{{ a.b.c }}"), "line 3: 'a' is undefined: cannot read its attribute 'b'");
  EXPECT_EQ(Printed("{}.b.c"), "line 1: 'b' is undefined: cannot read its attribute 'c'");
  EXPECT_EQ(Printed("a[0]"), "line 1: 'a' is undefined: cannot read its item 0");
}

TEST(JinjaInterpreterTest, ValuesThatCannotBeCalledOrIterated) {
  EXPECT_EQ(Printed("nothing()"), "line 1: 'nothing' is undefined: cannot call it");
  EXPECT_EQ(Printed("1 ()"), "line 1: cannot call integer");
  EXPECT_EQ(Rendered("{% for x in 5 %}{% endfor %}"), "line 1: cannot iterate over integer");
}

TEST(JinjaInterpreterTest, NothingIsPrintedAfterAnError) {
  EXPECT_EQ(Rendered("a\n{{ nothing.x }}{{ 1 | nope }}"),
            "line 2: 'nothing' is undefined: cannot read its attribute 'x'")
      << "the first error is reported";
}

TEST(JinjaInterpreterTest, StepsAndOutputAreBounded) {
  EXPECT_EQ(Rendered("{% for i in range(2000) %}{% for j in range(2000) %}{% endfor %}{% endfor %}"),
            "line 1: more than 2000000 steps");
  EXPECT_EQ(Rendered("{% set s = 'x' * 1000000 %}{% for i in range(70) %}{{ s }}{% endfor %}"),
            "line 1: more than 67108864 bytes of output");
}

TEST(JinjaArgumentsTest, PositionComesBeforeName) {
  const Arguments args{.positional = {Value(int64_t{1})},
                       .keywords = {{"a", Value(int64_t{2})}, {"b", Value(None{})}}};
  EXPECT_EQ(args.Get(0, "a"), &args.positional[0]);
  EXPECT_EQ(args.Get(1, "a"), &args.keywords[0].second);
  EXPECT_EQ(args.Get(1, "c"), nullptr);
  EXPECT_EQ(args.Text(0, "a", "-"), "1");
  EXPECT_EQ(args.Text(1, "b", "-"), "-") << "none counts as not given";
  EXPECT_EQ(args.Text(1, "c", "-"), "-");
}

}  // namespace
}  // namespace numoe::text::jinja
