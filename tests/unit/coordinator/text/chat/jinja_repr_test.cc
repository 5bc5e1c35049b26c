// repr() and str() of values with special printed forms in Python.
#include "coordinator/text/chat/jinja_repr.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

TEST(JinjaReprTest, UnprintableCharactersAreEscaped) {
  EXPECT_EQ(StringRepr("a'b"), "\"a'b\"");
  EXPECT_EQ(StringRepr("\u00a0\u200b\U000e0001\u00e9"), "'\\xa0\\u200b\\U000e0001\u00e9'");
  EXPECT_EQ(StringRepr("\u00e9", /*ascii=*/true), "'\\xe9'");
}

TEST(JinjaReprTest, EachKindOfSequenceHasItsForm) {
  EXPECT_EQ(Repr(Value::NewTuple({int64_t{1}})), "(1,)");
  EXPECT_EQ(Printed("{'a': 1}.items()"), "dict_items([('a', 1)])");
  EXPECT_EQ(Printed("range(2)"), "range(0, 2)");
  EXPECT_EQ(Printed("['a' | safe]"), "[Markup('a')]");
  EXPECT_EQ(Printed("namespace(a=1)"), "<Namespace {'a': 1}>");
}

}  // namespace
}  // namespace numoe::text::jinja
