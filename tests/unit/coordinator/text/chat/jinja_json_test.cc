// Values read from JSON and written as JSON.
#include "coordinator/text/chat/jinja_json.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

TEST(JinjaJsonTest, ValuesThatJsonDoesNotHave) {
  for (const Value& value :
       {Value(Undefined{"x"}), Value(Callable{"range", nullptr}), Value::NewGenerator({})})
    EXPECT_FALSE(ToJson(value, {}).has_value()) << TypeName(value);
  EXPECT_EQ(ToJson(Value::NewTuple({int64_t{1}}), {}), "[1]");
}

TEST(JinjaJsonTest, IndentsWithAnyText) {
  JsonStyle style;
  style.indent = "-";
  EXPECT_EQ(ToJson(FromJson(nlohmann::ordered_json::parse(R"({"a": [1]})")), style),
            "{\n-\"a\": [\n--1\n-]\n}");
}

}  // namespace
}  // namespace numoe::text::jinja
