// Methods of lists and dicts, as in Python.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaListMethodsTest, ListsAreSharedAndChanged) {
  EXPECT_EQ(
      Rendered(
          "{% set a = [1] %}{% set b = a %}{% set _ = b.append(2) %}{% set _ = b.extend('xy') %}{{ a }}"),
      "[1, 2, 'x', 'y']");
  EXPECT_EQ(Rendered("{% set a = [1, 2, 3] %}{{ a.pop() }}{{ a.pop(0) }}{{ a.pop(-1) }}{{ a }}"), "312[]");
  EXPECT_EQ(Printed("[[1, 2, 1].count(1), [1, 2].index(2)]"), "[2, 1]");
}

TEST(JinjaListMethodsTest, ErrorsNameTheReason) {
  EXPECT_THAT(Printed("[].pop()"), HasSubstr("pop from an empty list"));
  EXPECT_THAT(Printed("[1].pop(1)"), HasSubstr("pop: index out of range"));
  EXPECT_THAT(Printed("[1].pop(-2)"), HasSubstr("pop: index out of range"));
  EXPECT_THAT(Printed("[1].append()"), HasSubstr("append: expected an argument"));
  EXPECT_THAT(Printed("[1].index(2)"), HasSubstr("index: value is not in the list"));
}

TEST(JinjaDictMethodsTest, ReadsAndCopies) {
  EXPECT_EQ(Printed("[{'a': 1}.get('a'), {}.get('a'), {}.get('a', 2)]"), "[1, None, 2]");
  EXPECT_EQ(Printed("{'a': 1, 'b': 2}.items()"), "dict_items([('a', 1), ('b', 2)])");
  EXPECT_EQ(Printed("[{'a': 1}.keys(), {'a': 1}.values(), {'a': 1}.copy()]"),
            "[dict_keys(['a']), dict_values([1]), {'a': 1}]");
  EXPECT_THAT(Printed("{}.get()"), HasSubstr("get: expected a key"));
}

TEST(JinjaDictMethodsTest, ANamespaceHasNoMethods) {
  EXPECT_EQ(Rendered("{% set n = namespace(items=3) %}{{ n.items }}"), "3");
  EXPECT_THAT(Printed("namespace().keys()"), HasSubstr("'keys' is undefined: cannot call it"));
}

TEST(JinjaMethodsTest, OtherNamesAreUndefined) {
  EXPECT_THAT(Printed("'a'.encode()"), HasSubstr("'encode' is undefined: cannot call it"));
  EXPECT_THAT(Printed("[1].sort()"), HasSubstr("'sort' is undefined: cannot call it"));
  EXPECT_THAT(Printed("1 .bit_length()"), HasSubstr("'bit_length' is undefined: cannot call it"));
}

}  // namespace
}  // namespace numoe::text::jinja
