#include "common/json/json_reader.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string JsonErrorOf(std::string_view text) {
  const auto parsed = ParseStrictJson(text, "some.json");
  return parsed.ok() ? "parsed" : std::string(parsed.status().message());
}

TEST(JsonReaderTest, ReadsJson) {
  const auto parsed =
      ParseStrictJson(R"( {"a": [1, -2.5, "\u00e9", null, true], "b": {"a": {}}} )", "some.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)["a"][1], -2.5);
  EXPECT_EQ((*parsed)["a"][2], "é");
  EXPECT_TRUE((*parsed)["b"]["a"].empty()) << "the same key in another object is not a duplicate";
}

TEST(JsonReaderTest, NamesFilePositionFoundAndExpected) {
  EXPECT_EQ(JsonErrorOf(R"({"a": 1,})"),
            "some.json: not valid JSON at byte 9: syntax error while parsing object key - unexpected '}'; "
            "expected string "
            "literal");
  EXPECT_THAT(JsonErrorOf(""), HasSubstr("unexpected end of input"));
  EXPECT_THAT(JsonErrorOf("{} x"), HasSubstr("expected end of input"));
  EXPECT_THAT(JsonErrorOf("[1e999]"), StartsWith("some.json: not valid JSON at byte "));
}

TEST(JsonReaderTest, RefusesDuplicateKeysAtAnyDepth) {
  EXPECT_EQ(JsonErrorOf(R"({"a": 1, "b": 2, "a": 1})"), "some.json: key \"a\" occurs twice, expected once");
  EXPECT_EQ(JsonErrorOf(R"([{"x": {"k": 1, "\u006b": 2}}])"),
            "some.json: key \"k\" occurs twice, expected once");
}

TEST(JsonReaderTest, RefusesInvalidUtf8) {
  EXPECT_THAT(JsonErrorOf("{\"a\xff\": 1}"), HasSubstr("not valid JSON at byte 4"));
  EXPECT_THAT(JsonErrorOf("\"\xc3\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(JsonErrorOf("\"\xed\xa0\x80\""), HasSubstr("not valid JSON")) << "a surrogate encoded as UTF-8";
}

TEST(JsonReaderTest, RefusesDeepNesting) {
  EXPECT_EQ(JsonErrorOf(std::string(64, '[') + std::string(64, ']')), "parsed");
  EXPECT_EQ(JsonErrorOf(std::string(65, '[') + std::string(65, ']')),
            "some.json: nested deeper than expected, at most 64 levels");
  EXPECT_THAT(JsonErrorOf(std::string(1'000'000, '[')), HasSubstr("nested deeper"));
}

TEST(PrintableTest, IsOneShortLineOfValidUtf8) {
  EXPECT_EQ(Printable("model.layers.0"), "model.layers.0");
  EXPECT_EQ(Printable("a\nb\x01"), "a\\nb\\u0001");
  EXPECT_EQ(Printable("é\xff"), "é\xef\xbf\xbd") << "an invalid byte becomes U+FFFD";
  EXPECT_EQ(Printable(std::string(300, 'x')), std::string(200, 'x') + "...");
  const std::string cut = Printable("x" + std::string(500, '\xc3') + "\xa9");
  EXPECT_TRUE(nlohmann::json::accept("\"" + cut + "\"")) << "cut between characters";
}

TEST(BriefTest, IsJson) {
  EXPECT_EQ(Brief({{"a", {1, 2}}}), R"({"a":[1,2]})");
  EXPECT_EQ(Brief(nullptr), "null");
  EXPECT_EQ(Brief(std::string(300, 'x')).size(), 203u);
}

TEST(BoundedJsonTest, DepthAndKeysAreBounded) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(ParseBoundedJson(nested(100)).ok());
  EXPECT_THAT(ParseBoundedJson(nested(101)).status().ToString(),
              ::testing::HasSubstr("nested deeper than 100"));
  EXPECT_FALSE(ParseBoundedJson(std::string(400'000, '[')).ok());
  const auto object = [](int keys) {
    std::string text = "{";
    for (int i = 0; i < keys; ++i)
      text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{\"a:b\":\"[{\\\":\"}";
    return text + "}";
  };
  EXPECT_TRUE(ParseBoundedJson(object(2000)).ok());
  EXPECT_THAT(ParseBoundedJson(object(2001)).status().ToString(),
              ::testing::HasSubstr("more than 2000 keys"));
  const auto objects = [&](int count) {
    std::string text = "[" + object(1000);
    for (int i = 1; i < count; ++i) text += "," + object(1000);
    return text + "]";
  };
  EXPECT_TRUE(ParseBoundedJson(objects(100)).ok()) << "with as many keys within";
  EXPECT_THAT(ParseBoundedJson(objects(101)).status().ToString(),
              ::testing::HasSubstr("more than 200000 keys together"));
  EXPECT_THAT(ParseBoundedJson("{\"a\":").status().ToString(),
              ::testing::HasSubstr("not valid JSON at byte 6"));
  EXPECT_THAT(ParseBoundedJson("{\"a\": 1,}").status().ToString(),
              ::testing::HasSubstr("not valid JSON at byte 9"));
  EXPECT_THAT(ParseBoundedJson("").status().ToString(), ::testing::HasSubstr("empty"));
}

}  // namespace
}  // namespace numoe
