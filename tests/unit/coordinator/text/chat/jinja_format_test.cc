// Specifications of format(), on every kind of value.
#include "coordinator/text/chat/jinja_format.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

std::string Formatted(const Value& value, std::string_view specification) {
  Rendering in;
  const Str text = FormatValue(in, value, specification);
  return in.failed() ? "refused" : text.text();
}

TEST(JinjaFormatTest, NumbersAndText) {
  EXPECT_EQ(Formatted(int64_t{-42}, "06d"), "-00042");
  EXPECT_EQ(Formatted(int64_t{1234567}, "012,d"), "0,001,234,567");
  EXPECT_EQ(Formatted(int64_t{255}, "#x"), "0xff");
  EXPECT_EQ(Formatted(3.14159, "8.2f"), "    3.14");
  EXPECT_EQ(Formatted(0.25, ".1%"), "25.0%");
  EXPECT_EQ(Formatted(INT64_MIN, "d"), "-9223372036854775808");
  EXPECT_EQ(Formatted(Value::Text("\u00fcb"), "*^6"), "**\u00fcb**");
  EXPECT_EQ(Formatted(Value::Text("abc"), ".2"), "ab");
}

TEST(JinjaFormatTest, SpecificationsThatDoNotFitAreRefused) {
  for (const auto& [value, specification] : {std::pair<Value, const char*>(Value::Text("a"), "d"),
                                             {Value::Text("a"), "=5"},
                                             {int64_t{1}, ".2d"},
                                             {int64_t{1}, "s"},
                                             {None{}, "5"},
                                             {1.5, "x"},
                                             {int64_t{1}, "5 "},
                                             {1.5, ".99999f"},
                                             {int64_t{1}, "999999999d"}})
    EXPECT_EQ(Formatted(value, specification), "refused") << specification;
}

}  // namespace
}  // namespace numoe::text::jinja
