// Methods of strings, lists and dicts, as Python has them.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_THAT(Printed("'a'.replace('a')"), HasSubstr("replace: expected the old and the new text"));
}

TEST(JinjaStringMethodsTest, FindCountsCharacters) {
  EXPECT_EQ(
      Printed("['äbäb'.find('b'), 'äbäb'.rfind('b'), 'äb'.find('x'), 'äbäb'.count('äb'), 'äb'.count('')]"),
      "[1, 3, -1, 2, 3]");
}

TEST(JinjaStringMethodsTest, AffixesMayBeSeveral) {
  EXPECT_EQ(Printed("['abc'.startswith('ab'), 'abc'.startswith(('x', 'a')), 'abc'.endswith('bc'), "
                    "'abc'.endswith([]), 'a'.startswith('ab')]"),
            "[True, True, True, False, False]");
  EXPECT_THAT(Printed("'a'.startswith()"), HasSubstr("startswith: expected text"));
}

TEST(JinjaStringMethodsTest, Format) {
  EXPECT_EQ(Printed("'{} {1} {name} {{}}'.format('a', 'b', name='c')"), "a b c {}");
  EXPECT_THAT(Printed("'{}{}'.format(1)"), HasSubstr("format: no argument for {}"));
  EXPECT_THAT(Printed("'{5}'.format(1)"), HasSubstr("format: no argument for {5}"));
  EXPECT_THAT(Printed("'{x'.format(1)"), HasSubstr("format: '{' is not closed"));
}

TEST(JinjaStringMethodsTest, JoinTakesStringsOnly) {
  EXPECT_EQ(Printed("', '.join(['a', 'b'])"), "a, b");
  EXPECT_EQ(Printed("'-'.join('abc')"), "a-b-c");
  EXPECT_THAT(Printed("','.join([1])"), HasSubstr("join: expected strings, found integer"));
  EXPECT_THAT(Printed("','.join()"), HasSubstr("join: expected a list"));
}

TEST(JinjaStringMethodsTest, WhatMultipliesTextIsBoundedBySteps) {
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

TEST(JinjaListMethodsTest, ListsAreSharedAndChanged) {
  EXPECT_EQ(
      Rendered(
          "{% set a = [1] %}{% set b = a %}{% set _ = b.append(2) %}{% set _ = b.extend('xy') %}{{ a }}"),
      "[1, 2, 'x', 'y']");
  EXPECT_EQ(Rendered("{% set a = [1, 2, 3] %}{{ a.pop() }}{{ a.pop(0) }}{{ a.pop(-1) }}{{ a }}"), "312[]");
  EXPECT_EQ(Printed("[[1, 2, 1].count(1), [1, 2].index(2)]"), "[2, 1]");
}

TEST(JinjaListMethodsTest, ErrorsSayWhy) {
  EXPECT_THAT(Printed("[].pop()"), HasSubstr("pop from an empty list"));
  EXPECT_THAT(Printed("[1].pop(1)"), HasSubstr("pop: index out of range"));
  EXPECT_THAT(Printed("[1].pop(-2)"), HasSubstr("pop: index out of range"));
  EXPECT_THAT(Printed("[1].append()"), HasSubstr("append: expected an argument"));
  EXPECT_THAT(Printed("[1].index(2)"), HasSubstr("index: value is not in the list"));
}

TEST(JinjaDictMethodsTest, ReadsAndCopies) {
  EXPECT_EQ(Printed("[{'a': 1}.get('a'), {}.get('a'), {}.get('a', 2)]"), "[1, None, 2]");
  EXPECT_EQ(Printed("{'a': 1, 'b': 2}.items()"), "[['a', 1], ['b', 2]]") << "pairs are lists here";
  EXPECT_EQ(Printed("[{'a': 1}.keys(), {'a': 1}.values(), {'a': 1}.copy()]"), "[['a'], [1], {'a': 1}]");
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
