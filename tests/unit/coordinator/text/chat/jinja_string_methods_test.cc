// Methods of strings, on code points and on markup.
#include "coordinator/text/chat/jinja_string_methods.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaStringMethodsTest, PositionsCountCodePoints) {
  EXPECT_EQ(Printed("('\u00fcab'.find('b'), 'abab'.rfind('a', 0, 2), 'abc'.count('', 1))"), "(2, 0, 3)");
  EXPECT_THAT(Printed("'a'.index('b')"), HasSubstr("not found"));
}

TEST(JinjaStringMethodsTest, PartsOfText) {
  EXPECT_EQ(Printed("('a-b-c'.rpartition('-'), 'a  b c'.rsplit(none, 1), 'x\u0085y'.splitlines())"),
            "(('a-b', '-', 'c'), ['a  b', 'c'], ['x', 'y'])");
}

TEST(JinjaStringMethodsTest, MarkupEscapesItsArguments) {
  EXPECT_EQ(Printed("('a' | safe).replace('a', '<') ~ (',' | safe).join(['<'])"), "&lt;&lt;");
}

TEST(JinjaStringMethodsTest, ResultsAreBounded) {
  EXPECT_THAT(Printed("'a'.ljust(999999999)"), HasSubstr("bytes of text"));
}

TEST(JinjaStringMethodsTest, Strip) {
  EXPECT_EQ(Printed("'xxaxx'.strip('x') ~ '|' ~ 'xxa'.lstrip('x') ~ '|' ~ 'axx'.rstrip('xa') ~ '|'"),
            "a|a||");
  EXPECT_EQ(Printed("' a '.strip(none) ~ '|'"), "a|");
}

TEST(JinjaStringMethodsTest, Split) {
  EXPECT_EQ(Printed("'a,b,,c'.split(',')"), "['a', 'b', '', 'c']");
  EXPECT_EQ(Printed("'a,b,c'.split(',', 1)"), "['a', 'b,c']");
  EXPECT_EQ(Printed("'a,b,c'.rsplit(',', maxsplit=1)"), "['a,b', 'c']");
  EXPECT_EQ(Printed("'aaa'.rsplit('aa')"), "['a', '']");
  EXPECT_EQ(Printed("' a  b c '.split(none, 1)"), "['a', 'b c ']");
  EXPECT_EQ(Printed("''.split()"), "[]");
  EXPECT_EQ(Printed("''.split(',')"), "['']");
  EXPECT_THAT(Printed("'a'.split('')"), HasSubstr("split: empty separator"));
  EXPECT_EQ(Printed("'a\r\nb\n\nc\n'.splitlines()"), "['a', 'b', '', 'c']");
}

TEST(JinjaStringMethodsTest, Replace) {
  EXPECT_EQ(Printed("'aaaa'.replace('aa', 'b')"), "bb");
  EXPECT_EQ(Printed("'aaa'.replace('a', 'b', 2)"), "bba");
  EXPECT_EQ(Printed("'aaa'.replace('a', '', -1) ~ '|'"), "|");
  EXPECT_EQ(Printed("'äb'.replace('', '-')"), "-ä-b-");
  EXPECT_EQ(Printed("'äb'.replace('', '-', 2)"), "-ä-b");
  EXPECT_THAT(Printed("'a'.replace('a')"), HasSubstr("replace: expected the argument 'new'"));
}

TEST(JinjaStringMethodsTest, FindCountsCharacters) {
  EXPECT_EQ(
      Printed("['äbäb'.find('b'), 'äbäb'.rfind('b'), 'äb'.find('x'), 'äbäb'.count('äb'), 'äb'.count('')]"),
      "[1, 3, -1, 2, 3]");
}

TEST(JinjaStringMethodsTest, SeveralPrefixesOrSuffixes) {
  EXPECT_EQ(Printed("['abc'.startswith('ab'), 'abc'.startswith(('x', 'a')), 'abc'.endswith('bc'), "
                    "'abc'.endswith(()), 'a'.startswith('ab')]"),
            "[True, True, True, False, False]");
  EXPECT_THAT(Printed("'a'.startswith()"), HasSubstr("startswith: expected the argument 'prefix'"));
}

TEST(JinjaStringMethodsTest, Format) {
  EXPECT_EQ(Printed("'{} {} {name} {{}}'.format('a', 'b', name='c')"), "a b c {}");
  EXPECT_THAT(Printed("'{}{}'.format(1)"), HasSubstr("format: no argument for {}"));
  EXPECT_THAT(Printed("'{5}'.format(1)"), HasSubstr("format: no argument for {5}"));
  EXPECT_THAT(Printed("'{x'.format(1)"), HasSubstr("format: '{' is not part of a field"));
}

TEST(JinjaStringMethodsTest, JoinTakesStringsOnly) {
  EXPECT_EQ(Printed("', '.join(['a', 'b'])"), "a, b");
  EXPECT_EQ(Printed("'-'.join('abc')"), "a-b-c");
  EXPECT_THAT(Printed("','.join([1])"), HasSubstr("join: expected strings, found integer"));
  EXPECT_THAT(Printed("','.join()"), HasSubstr("join: expected the argument 'iterable'"));
}

TEST(JinjaStringMethodsTest, MethodsThatMultiplyTextAreBoundedBySteps) {
  for (const char* expression :
       {"('a' * 100000).replace('a', 'b' * 100000)", "('a' * 100000).replace('', 'b' * 100000)",
        "('x' * 100000).join('a' * 100000)"})
    EXPECT_EQ(Printed(expression), "line 1: more than 2000000 steps") << expression;
}

TEST(JinjaStringMethodsTest, KindsOfLetters) {
  EXPECT_EQ(
      Printed(
          "['12'.isdigit(), ''.isdigit(), '1a'.isdigit(), 'a1'.islower(), 'A1'.isupper(), 'Aa'.isupper()]"),
      "[True, False, False, True, True, False]");
}

}  // namespace
}  // namespace numoe::text::jinja
