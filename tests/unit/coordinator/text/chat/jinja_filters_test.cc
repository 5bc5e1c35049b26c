// Filters: edge cases and refusals beyond those of testdata/features.json.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaFiltersTest, Tojson) {
  EXPECT_EQ(Printed("{'b': 1, 'a': [none]} | tojson"), R"({"b": 1, "a": [null]})");
  EXPECT_EQ(Printed("{'b': 1, 'a': 2} | tojson(sort_keys=true, separators=('; ', '='))"),
            R"({"a"=2; "b"=1})");
  EXPECT_EQ(Printed("[1, 2] | tojson(separators=(',', ':'))"), "[1,2]");
  EXPECT_EQ(Printed("[1] | tojson(separators=none)"), "[1]");
  EXPECT_THAT(Printed("1 | tojson(separators=(',',))"), HasSubstr("separators must be two strings"));
  EXPECT_THAT(Printed("nothing | tojson"), HasSubstr("tojson: undefined is not JSON serializable"));
}

TEST(JinjaFiltersTest, Lengths) {
  EXPECT_EQ(Printed("'äö' | length ~ [1] | count ~ {'a': 1} | length ~ nothing | length"), "2110");
  EXPECT_THAT(Printed("1 | length"), HasSubstr("length: integer has no length"));
}

TEST(JinjaFiltersTest, Dictsort) {
  const std::string dict = "{'b': 1, 'A': 3, 'c': 2}";
  EXPECT_EQ(Printed(dict + " | dictsort | map('first') | join"), "Abc");
  EXPECT_EQ(Printed(dict + " | dictsort(by='value', reverse=true) | map('first') | join"), "Acb");
  EXPECT_EQ(Printed("{'b': 1, 'a': 2, 'C': 3} | dictsort(true) | map('first') | join"), "Cab");
  EXPECT_THAT(Printed("[1] | dictsort"), HasSubstr("expected a mapping, found list"));
}

TEST(JinjaFiltersTest, DefaultsForMissingOrFalseValues) {
  EXPECT_EQ(Printed("nothing | default('x') ~ nothing | d ~ '' | default('y') ~ '' | default('z', true)"),
            "xz");
  EXPECT_EQ(Printed("none | default('x')"), "None") << "none is defined";
}

TEST(JinjaFiltersTest, SelectionByTestsAndAttributes) {
  const std::string users = "[{'n': 'a', 'age': 3}, {'n': 'b'}, {'n': 'c', 'age': 7}]";
  EXPECT_EQ(Printed(users + " | selectattr('age', 'gt', 5) | map(attribute='n') | join"),
            "line 1: cannot compare undefined > integer")
      << "a missing attribute cannot be compared";
  EXPECT_EQ(Printed(users + " | selectattr('age') | map(attribute='n') | join"), "ac");
  EXPECT_EQ(Printed(users + " | rejectattr('age', 'defined') | map(attribute='n') | join"), "b");
  EXPECT_EQ(Printed("[0, 1, 2, 3] | select('odd') | join ~ [0, 1, 2] | reject | join"), "130");
  EXPECT_THAT(Printed("[1] | selectattr"), HasSubstr("expected the name of an attribute"));
  EXPECT_THAT(Printed("[1] | select('nope')"), HasSubstr("no test named 'nope'"));
}

TEST(JinjaFiltersTest, Map) {
  EXPECT_EQ(Printed("[{'a': {'b': 1}}, {'a': {}}] | map(attribute='a.b', default='-') | join"), "1-");
  EXPECT_EQ(Printed("[[3, 4], [5, 6]] | map(attribute=1) | join(',')"), "4,6");
  EXPECT_EQ(Printed("['ab', 'cd'] | map('replace', 'a', 'x') | join"), "xbcd");
  EXPECT_THAT(Printed("[1] | map"), HasSubstr("map: expected a filter name or attribute="));
  EXPECT_THAT(Printed("[1] | map('nope')"), HasSubstr("no filter named 'nope'"));
}

TEST(JinjaFiltersTest, SortingIsStableAndRefusesMixedKinds) {
  EXPECT_EQ(Printed("['b', 'B', 'a'] | sort | join"), "abB");
  EXPECT_EQ(Printed("['b', 'B', 'a'] | sort(case_sensitive=true) | join"), "Bab");
  EXPECT_EQ(
      Printed("[{'k': 2, 'n': 'x'}, {'k': 1, 'n': 'y'}] | sort(attribute='k') | map(attribute='n') | join"),
      "yx");
  EXPECT_THAT(Printed("[1, 'a'] | sort"), HasSubstr("sort: items cannot be compared"));
}

TEST(JinjaFiltersTest, GroupsUniquesAndBatches) {
  EXPECT_EQ(Rendered("{% for key, items in [{'c': 'x', 'v': 1}, {'c': 'a', 'v': 2}, {'c': 'x', 'v': 3}] | "
                     "groupby('c') %}"
                     "{{ key }}{{ items | map(attribute='v') | join }} {% endfor %}"),
            "a2 x13 ");
  EXPECT_THAT(Printed("[] | groupby"), HasSubstr("groupby: expected the argument 'attribute'"));
  EXPECT_EQ(Printed("['a', 'A', 'b', 1, 1.0] | unique | join"), "ab1");
  EXPECT_EQ(Printed("[1, 2, 3] | batch(2, 0) | list"), "[[1, 2], [3, 0]]");
  EXPECT_EQ(Printed("[] | batch(2, 0) | list"), "[]");
  EXPECT_THAT(Printed("[1] | batch(0)"), HasSubstr("batch: expected a positive count"));
}

TEST(JinjaFiltersTest, Indent) {
  EXPECT_EQ(Printed("'a\n\nb' | indent"), "a\n\n    b");
  EXPECT_EQ(Printed("'a\n\nb' | indent('> ', true, true)"), "> a\n> \n> b");
  EXPECT_EQ(Printed("'a\nb' | indent(width=0)"), "a\nb");
}

TEST(JinjaFiltersTest, SumsAndExtremes) {
  EXPECT_EQ(Printed("[1, 2] | sum ~ ' ' ~ [1, 0.5] | sum ~ ' ' ~ [] | sum"), "3 1.5 0");
  EXPECT_EQ(Printed("[{'p': 2}, {'p': 3}] | sum(attribute='p')"), "5");
  EXPECT_THAT(Printed("['a'] | sum"), HasSubstr("cannot compute integer + string"));
  EXPECT_EQ(Printed("[3, 1, 2] | min ~ [3, 1, 2] | max ~ [] | max"), "13");
}

TEST(JinjaFiltersTest, NumbersFromText) {
  EXPECT_EQ(
      Printed("'42' | int ~ ' ' ~ '4.9' | int ~ ' ' ~ 'x' | int ~ ' ' ~ 'x' | int(7) ~ ' ' ~ -4.9 | int"),
      "42 4 0 7 -4");
  EXPECT_THAT(Printed("1e300 | int"), HasSubstr("int: a number beyond 64 bits"));
  EXPECT_EQ(Printed("'1.5' | float ~ ' ' ~ 'x' | float ~ ' ' ~ 'x' | float(default=2) ~ ' ' ~ true | float"),
            "1.5 0.0 2 1.0");
}

TEST(JinjaFiltersTest, NumbersBeyond64BitsAreRefused) {
  EXPECT_THAT(Printed("'99999999999999999999' | int"), HasSubstr("int: a number beyond 64 bits"));
  EXPECT_THAT(Printed("[2 ** 62, 2 ** 62] | sum"), HasSubstr("cannot compute integer + integer"));
  EXPECT_THAT(Printed("(-(2 ** 62) - 2 ** 62) | abs"), HasSubstr("abs: a number beyond 64 bits"));
}

TEST(JinjaFiltersTest, FiltersThatMultiplyTextAreBoundedBySteps) {
  for (const char* expression :
       {"[1] | batch(10 ** 17, 0)", "('\n' * 100000) | indent('x' * 100000, true, true)",
        "range(100000) | join('x' * 100000)"})
    EXPECT_THAT(Printed(expression), HasSubstr("more than 2000000 steps")) << expression;
}

TEST(JinjaFiltersTest, Rounding) {
  EXPECT_EQ(Printed("2.5 | round ~ ' ' ~ 3.5 | round ~ ' ' ~ 2.345 | round(2, 'floor') ~ ' ' ~ 2.341 | "
                    "round(2, method='ceil')"),
            "2.0 4.0 2.34 2.35");
  EXPECT_THAT(Printed("'x' | round"), HasSubstr("round: expected a number, found string"));
  EXPECT_EQ(Printed("-3 | abs ~ ' ' ~ -1.5 | abs"), "3 1.5");
  EXPECT_THAT(Printed("'x' | abs"), HasSubstr("abs: expected a number, found string"));
}

TEST(JinjaFiltersTest, FromJsonIsNotTrustedAndBounded) {
  EXPECT_EQ(Printed("('{\"a\": [1]}' | from_json).a[0]"), "1");
  EXPECT_THAT(Printed("'{' | from_json"), HasSubstr("line 1: from_json: "));
}

TEST(JinjaFiltersTest, FirstAndLastItems) {
  EXPECT_EQ(Printed("'äb' | first ~ 'äb' | last ~ [] | first ~ {'k': 1} | first"), "äbk");
  EXPECT_EQ(Printed("'äbc' | reverse ~ [1, 2] | reverse | join"), "cbä21");
  EXPECT_EQ(Printed("'a  b\nc' | wordcount"), "3");
}

}  // namespace
}  // namespace numoe::text::jinja
