// Names, arguments, and the scopes around macros that these keep.
#include "coordinator/text/chat/jinja_evaluator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaEvaluatorTest, ArgumentsSpread) {
  const std::string macro = "{% macro f(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}";
  EXPECT_EQ(Rendered(macro + "{{ f(*[1, 2], **{'c': 3}) }}"), "123");
  EXPECT_THAT(Rendered(macro + "{{ f(**[1]) }}"), HasSubstr("expected a mapping after **"));
}

TEST(JinjaEvaluatorTest, TuplesAndKeys) {
  EXPECT_EQ(Printed("(1, 'a'), {(1, 2): 3}"), "((1, 'a'), {(1, 2): 3})");
  EXPECT_THAT(Printed("{[1]: 2}"), HasSubstr("list cannot be a key"));
}

TEST(JinjaEvaluatorTest, ClosuresSeeTheScopesOfTheirDefinition) {
  EXPECT_EQ(Rendered("{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}"), "12");
  EXPECT_EQ(Rendered("{% macro m() %}{{ x }}{% endmacro %}{% with x = 1 %}[{{ m() }}]{% endwith %}"), "[]");
}

TEST(JinjaEvaluatorTest, ErrorsNameTheValueThatCannotBeCalled) {
  EXPECT_THAT(Printed("x()"), HasSubstr("'x' is undefined: cannot call it"));
  EXPECT_THAT(Printed("1()"), HasSubstr("cannot call integer"));
}

}  // namespace
}  // namespace numoe::text::jinja
