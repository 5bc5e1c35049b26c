// Numbers in text, read like in Python.
#include "coordinator/text/chat/jinja_number_text.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

TEST(JinjaNumberTextTest, IntegersOfAnyBase) {
  EXPECT_EQ(ReadInteger(" -1_000 ", 10).integer, -1000);
  EXPECT_EQ(ReadInteger("0b11", 0).integer, 3);
  EXPECT_EQ(ReadInteger("zz", 36).integer, 35 * 36 + 35);
  EXPECT_EQ(ReadInteger("-9223372036854775808", 10).integer, INT64_MIN);
  for (const char* text : {"", "_1", "1__0", "1_", "0x", "1.5", "12a", "--1"})
    EXPECT_FALSE(ReadInteger(text, 10).integer || ReadInteger(text, 10).beyond) << text;
  EXPECT_TRUE(ReadInteger("9223372036854775808", 10).beyond);
  EXPECT_FALSE(ReadInteger("007", 0).integer.has_value());
}

TEST(JinjaNumberTextTest, Reals) {
  EXPECT_EQ(ReadReal(" 1_0.5e1 "), 105.0);
  EXPECT_EQ(ReadReal("-Infinity"), -HUGE_VAL);
  for (const char* text : {"", "0x10", "1e", "infinit", "1 2"})
    EXPECT_FALSE(ReadReal(text).has_value()) << text;
}

}  // namespace
}  // namespace numoe::text::jinja
