// Tests of the template language (`x is name`), each true and false at least once.
#include <fmt/format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/chat/rendered.h"

namespace numoe::text::jinja {
namespace {

using ::testing::HasSubstr;

void ExpectTest(const std::string& name, std::initializer_list<const char*> true_of,
                std::initializer_list<const char*> false_of) {
  for (const char* subject : true_of)
    EXPECT_EQ(Printed(fmt::format("({}) is {}", subject, name)), "True") << subject << " is " << name;
  for (const char* subject : false_of)
    EXPECT_EQ(Printed(fmt::format("({}) is {}", subject, name)), "False") << subject << " is " << name;
}

TEST(JinjaTestsTest, Kinds) {
  ExpectTest("defined", {"1", "none"}, {"nothing", "{'a': 1}.b"});
  ExpectTest("undefined", {"nothing"}, {"none"});
  ExpectTest("none", {"none"}, {"nothing", "0"});
  ExpectTest("string", {"''", "1 | string"}, {"1", "[]"});
  ExpectTest("mapping", {"{}", "dict(a=1)"}, {"[]", "namespace(a=1)"});
  ExpectTest("iterable", {"[]", "''", "{}"}, {"1", "none", "namespace()"});
  ExpectTest("sequence", {"[]", "''", "{}"}, {"1", "namespace()"});
  ExpectTest("boolean", {"true"}, {"1", "none"});
  ExpectTest("true", {"true"}, {"1", "false"});
  ExpectTest("false", {"false"}, {"0", "none"});
  ExpectTest("number", {"1", "1.5", "true"}, {"'1'"});
  ExpectTest("integer", {"1"}, {"1.0", "true"});
  ExpectTest("float", {"1.0"}, {"1"});
  ExpectTest("callable", {"range", "'a'.upper"}, {"'a'"});
}

TEST(JinjaTestsTest, NumbersAndLetters) {
  ExpectTest("odd", {"3", "-1"}, {"2", "0"});
  ExpectTest("even", {"2", "0", "-4"}, {"3"});
  ExpectTest("divisibleby 3", {"9", "0"}, {"10"});
  EXPECT_THAT(Printed("9 is divisibleby(0)"), HasSubstr("cannot compute integer % integer"));
  ExpectTest("lower", {"'ab'"}, {"'aB'", "'1'"});
  ExpectTest("upper", {"'AB'"}, {"'aB'", "'1'"});
}

TEST(JinjaTestsTest, Comparisons) {
  for (const char* name : {"equalto", "eq", "sameas"})
    ExpectTest(std::string(name) + " 2", {"2"}, {"3", "'2'"});
  ExpectTest("ne 2", {"3", "'2'"}, {"2"});
  ExpectTest("lt 2", {"1"}, {"2", "3"});
  ExpectTest("le 2", {"1", "2"}, {"3"});
  ExpectTest("gt 2", {"3"}, {"2", "1"});
  ExpectTest("ge 2", {"3", "2"}, {"1"});
  EXPECT_EQ(Printed("[1, 2, 3] | select('>', 1) | select('<', 3) | reject('!=', 2) | join"), "2");
  EXPECT_THAT(Printed("'a' is lt 2"), HasSubstr("cannot compare string < integer"));
  EXPECT_THAT(Printed("1 is gt"), HasSubstr("gt: expected the argument 'other'"));
}

TEST(JinjaTestsTest, In) {
  ExpectTest("in [1, 'a']", {"1", "'a'", "1.0"}, {"2"});
  ExpectTest("in 'abc'", {"'bc'"}, {"'x'"});
  ExpectTest("in {'k': 1}", {"'k'"}, {"1"});
  EXPECT_THAT(Printed("1 is in"), HasSubstr("in: expected the argument 'seq'"));
  EXPECT_THAT(Printed("1 is in 'abc'"), HasSubstr("cannot look for integer in a string"));
  EXPECT_THAT(Printed("1 is in 2"), HasSubstr("cannot iterate over integer"));
}

TEST(JinjaTestsTest, ErrorsNameUnknownTests) {
  EXPECT_EQ(Rendered("\n{{ 1 is nope }}"), "line 2: no test named 'nope'");
}

}  // namespace
}  // namespace numoe::text::jinja
