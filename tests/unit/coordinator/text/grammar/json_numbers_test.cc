// Numbers in a range, and the exact decimals of their bounds.
#include "coordinator/text/grammar/json_numbers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/schema_cases.h"

namespace numoe::text {
namespace {

TEST(JsonNumbersTest, Integers) {
  CheckSchema(
      {{R"({"type":"integer","minimum":0})", {"0", "7", "1000"}, {"-1", "-0", "1.0"}},
       {R"({"type":"integer","minimum":-5,"maximum":120})",
        {"-5", "-1", "0", "9", "99", "120"},
        {"-6", "121", "1000", "-10"}},
       {R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":12})", {"10", "11"}, {"9", "12"}},
       {R"({"type":"integer","minimum":1.5,"maximum":3.5})", {"2", "3"}, {"1", "4"}},
       {R"({"type":"integer","minimum":-3.5,"maximum":-1.5})", {"-3", "-2"}, {"-4", "-1", "2"}},
       {R"({"type":"integer","maximum":-100})", {"-100", "-101", "-9999"}, {"-99", "0", "100"}},
       {R"({"type":"integer","minimum":0,"exclusiveMinimum":true,"maximum":3})", {"1", "3"}, {"0"}},
       {R"({"type":"integer","minimum":98765,"maximum":1234567})",
        {"98765", "100000", "1234567", "999999"},
        {"98764", "1234568"}},
       {R"({"type":"integer","multipleOf":7,"minimum":1,"maximum":30})",
        {"7", "14", "28"},
        {"0", "8", "35", "-7"}},
       {R"({"type":"integer","multipleOf":10})", {"0", "-20", "100"}, {"5", "-1"}},
       {R"({"type":"integer","minimum":1e20})", {"100000000000000000000"}, {"99999999999999999999"}},
       {R"({"type":"integer","minimum":9007199254740993,"maximum":18446744073709551615})",
        {"9007199254740993", "18446744073709551615"},
        {"9007199254740992", "18446744073709551616"}}});
}

TEST(JsonNumbersTest, NumbersWithBounds) {
  CheckSchema({{R"({"type":"number","minimum":0,"maximum":1})",
                {"0", "0.5", "1", "1.0", "1.000", "0.00"},
                {"1.01", "-0.1", "2", "1e-1"}},
               {R"({"type":"number","exclusiveMinimum":0})", {"0.001", "1", "12.5"}, {"0", "0.0", "-1"}},
               {R"({"type":"number","minimum":-1.25,"exclusiveMaximum":2.5})",
                {"-1.25", "-1.250", "-1.2", "-1", "-0.5", "0", "2.49", "2.4999", "2"},
                {"-1.26", "-1.251", "2.5", "2.50", "3", "-2"}},
               {R"({"type":"number","maximum":-0.5})",
                {"-0.5", "-0.51", "-1", "-10.25"},
                {"-0.49", "0", "1", "-0.4"}},
               {R"({"type":"number","minimum":12.34,"maximum":12.36})",
                {"12.34", "12.35", "12.359", "12.36", "12.3600"},
                {"12.33", "12.361", "12", "12.3", "13"}},
               {R"({"type":"number","multipleOf":0.05,"minimum":0,"maximum":2})",
                {"0.05", "1.1", "2", "0.10", "1.250"},
                {"0.01", "1.251", "2.05"}},
               // Bounds larger than all generated numbers may be rounded; the library zod writes them.
               {R"({"type":"number","minimum":-1.7976931348623157e+308,"maximum":1.7976931348623157e+308})",
                {"5", "-3.5", "0"},
                {"\"x\""}},
               {R"({"minimum":3})", {"3", "3.5"}, {"2", "\"x\""}},
               {R"({"type":["integer","string"],"minimum":3})", {"3", "\"\""}, {"2", "3.5"}}});
}

TEST(DecimalTest, ReadsWithoutRounding) {
  const auto spelled = [](const char* text) {
    const auto d = grammar::Decimal::Parse(text);
    return d ? (d->negative ? "-" : "") + d->whole + "." + d->fraction : "none";
  };
  EXPECT_EQ(spelled("12.50"), "12.5");
  EXPECT_EQ(spelled("-0.0"), "0.") << "zero has no sign";
  EXPECT_EQ(spelled("1.25e2"), "125.");
  EXPECT_EQ(spelled("125e-4"), "0.0125");
  EXPECT_EQ(spelled("1e30"), "1" + std::string(30, '0') + ".");
  EXPECT_EQ(spelled("0.1000000000000000000000000000001"), "0.1000000000000000000000000000001");
  for (const char* text : {"", "-", "x", "1e401", "1e-401", "1e", "1ex", "1e5x", "1e99999999999999999999"})
    EXPECT_EQ(spelled(text), "none") << text;
}

TEST(DecimalTest, Order) {
  const std::vector<const char*> ascending = {
      "-10.5", "-9", "-0.5", "-0.25", "0", "0.25", "0.5", "9", "10", "10.5", "123456789012345678901"};
  for (size_t i = 0; i < ascending.size(); ++i)
    for (size_t j = 0; j < ascending.size(); ++j) {
      const int order =
          grammar::Decimal::Parse(ascending[i])->Compare(*grammar::Decimal::Parse(ascending[j]));
      EXPECT_EQ(order < 0, i < j) << ascending[i] << " " << ascending[j];
      EXPECT_EQ(order == 0, i == j) << ascending[i] << " " << ascending[j];
    }
}

TEST(NumberBoundsTest, TheNarrowerBoundStays) {
  const auto one = *grammar::Decimal::Parse("1"), two = *grammar::Decimal::Parse("2");
  grammar::NumberBounds bounds;
  EXPECT_FALSE(bounds.any());
  bounds.AtLeast(two, false);
  bounds.AtLeast(one, true);
  EXPECT_EQ(bounds.low->whole, "2");
  EXPECT_FALSE(bounds.low_exclusive);
  bounds.AtLeast(two, true);
  EXPECT_TRUE(bounds.low_exclusive) << "if bounds are equal, the exclusive one stays";
  bounds.AtMost(one, true);
  bounds.AtMost(two, false);
  EXPECT_EQ(bounds.high->whole, "1");
  EXPECT_TRUE(bounds.high_exclusive);
}

}  // namespace
}  // namespace numoe::text
