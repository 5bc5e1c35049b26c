// Filters of lists: generators, groups, orders.
#include "coordinator/text/chat/jinja_filters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

TEST(JinjaListFiltersTest, GeneratorsAreReadOnceAndAreTrue) {
  EXPECT_EQ(Rendered("{% set g = [1, 2] | select %}{{ g | first }}{{ g | list }}{{ g | list }}"), "1[2][]");
  EXPECT_EQ(Printed("1 if [] | select else 2"), "1");
  EXPECT_THAT(Printed("[1] | select | length"), HasSubstr("generator has no length"));
}

TEST(JinjaListFiltersTest, SelectFromNone) {
  EXPECT_EQ(Printed("(none | selectattr('a') | list, none | map('upper') | list)"), "([], [])");
  EXPECT_THAT(Printed("none | list"), HasSubstr("cannot iterate over none"));
}

TEST(JinjaListFiltersTest, GroupsHaveNames) {
  EXPECT_EQ(Rendered("{% for g in [{'a': 2}, {'a': 1}, {'a': 2}] | groupby('a') %}{{ g.grouper }}{{ g.list | "
                     "length }} {% endfor %}"),
            "11 22 ");
}

TEST(JinjaListFiltersTest, ItemsThatCannotBeComparedAreRefused) {
  EXPECT_THAT(Printed("[1, 'a'] | sort"), HasSubstr("cannot be compared"));
  EXPECT_THAT(Printed("[1, 'a'] | max"), HasSubstr("cannot be compared"));
  EXPECT_THAT(Printed("[[1]] | unique | list"), HasSubstr("unique: items of type list cannot be compared"));
}

}  // namespace
}  // namespace numoe::text::jinja
