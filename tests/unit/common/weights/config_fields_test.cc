// Fields of configuration files: spellings, ranges, and the first error.
#include "common/weights/config_fields.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

TEST(ConfigFieldsTest, TheFirstSpellingThatIsPresentCounts) {
  const json object = json::parse(R"({"a": null, "b": 5, "c": 6, "s": "x", "f": true, "d": 0.5})");
  ConfigFields in(object, "config.json");
  EXPECT_EQ(in.Int({"a", "b", "c"}, 0, 9), 5);
  EXPECT_STREQ(in.Spelling({"a", "c"}), "c");
  EXPECT_EQ(in.Spelling({"a", "z"}), nullptr);
  EXPECT_EQ(in.String({"s"}), "x");
  EXPECT_TRUE(in.Bool({"f"}));
  EXPECT_EQ(in.Double({"d"}, 0, 1), 0.5);
  EXPECT_EQ(in.Double({"b"}, 0, 9), 5.0) << "an integer is a number";
  EXPECT_TRUE(in.status().ok()) << in.status();
}

TEST(ConfigFieldsTest, MissingFieldsGetTheirFallback) {
  const json object = json::parse(R"({"a": null})");
  ConfigFields in(object, "config.json");
  EXPECT_EQ(in.Int64({"a"}, 0, 9, 7), 7);
  EXPECT_EQ(in.Double({"a"}, 0, 9, 0.25), 0.25);
  EXPECT_TRUE(in.Bool({"a"}, true));
  EXPECT_EQ(in.String({"a"}, "x"), "x");
  EXPECT_EQ(in.Object({"a"}), nullptr);
  in.Only("a", 5);
  std::vector<int32_t> ids = {3};
  in.Tokens({"a"}, 10, ids);
  EXPECT_THAT(ids, ElementsAre(3));
  EXPECT_TRUE(in.status().ok()) << in.status();
}

// Returns the error that `read` gives for a JSON object.
template <typename Read>
std::string ErrorOf(const char* text, Read read) {
  const json object = json::parse(text);
  ConfigFields in(object, "f.json", "text_config.");
  read(in);
  return std::string(in.status().message());
}

TEST(ConfigFieldsTest, ErrorsNameFileFieldFoundAndExpected) {
  EXPECT_EQ(ErrorOf("{}",
                    [](ConfigFields& in) {
                      EXPECT_EQ(in.Int({"n", "m"}, 3, 9), 3) << "a value inside the range";
                    }),
            "f.json: text_config.n is missing, expected an integer from 3 to 9");
  EXPECT_EQ(ErrorOf(R"({"m": 10})",
                    [](ConfigFields& in) {
                      in.Int({"n", "m"}, 3, 9);
                    }),
            "f.json: text_config.m is 10, expected an integer from 3 to 9");
  EXPECT_EQ(ErrorOf(R"({"n": 4.0})", [](ConfigFields& in) { in.Int({"n"}, 3, 9); }),
            "f.json: text_config.n is 4.0, expected an integer from 3 to 9");
  EXPECT_EQ(
      ErrorOf(R"({"n": 18446744073709551615})", [](ConfigFields& in) { in.Int64({"n"}, 0, INT64_MAX); }),
      "f.json: text_config.n is 18446744073709551615, expected an integer from 0 to 9223372036854775807");
  EXPECT_EQ(ErrorOf(R"({"d": "x"})", [](ConfigFields& in) { in.Double({"d"}, 0, 1); }),
            "f.json: text_config.d is \"x\", expected a number from 0 to 1");
  EXPECT_EQ(ErrorOf(R"({"b": 1})", [](ConfigFields& in) { in.Bool({"b"}); }),
            "f.json: text_config.b is 1, expected true or false");
  EXPECT_EQ(ErrorOf(R"({"s": []})", [](ConfigFields& in) { in.String({"s"}); }),
            "f.json: text_config.s is [], expected a string");
  EXPECT_EQ(ErrorOf(R"({"o": 1})", [](ConfigFields& in) { in.Object({"o"}); }),
            "f.json: text_config.o is 1, expected an object");
}

TEST(ConfigFieldsTest, TheFirstErrorStays) {
  const json object = json::parse(R"({"inner": {"n": 1}})");
  ConfigFields outer(object, "f.json");
  ConfigFields inner(*outer.Object({"inner"}), "f.json", outer.PrefixOf("inner"));
  inner.Int({"n"}, 2, 3);
  inner.Int({"z"}, 2, 3);
  outer.Absorb(inner);
  outer.Int({"y"}, 0, 1);
  EXPECT_EQ(outer.status().message(), "f.json: inner.n is 1, expected an integer from 2 to 3");
}

TEST(ConfigFieldsTest, TokensAreOneOrAListWithoutRepetition) {
  const json object = json::parse(R"({"one": 4, "list": [1, 4, 2, 1], "bad": [1, 10]})");
  ConfigFields in(object, "f.json");
  std::vector<int32_t> ids;
  in.Tokens({"one"}, 10, ids);
  in.Tokens({"list"}, 10, ids);
  EXPECT_THAT(ids, ElementsAre(4, 1, 2));
  in.Tokens({"bad"}, 10, ids);
  EXPECT_EQ(in.status().message(), "f.json: bad is [1,10], expected token ids from 0 to 9, below vocab_size");
}

TEST(ConfigFieldsTest, OnlyOneValueIsAccepted) {
  EXPECT_EQ(ErrorOf(R"({"k": "silu"})", [](ConfigFields& in) { in.Only("k", "silu"); }), "");
  EXPECT_EQ(ErrorOf(R"({"k": "gelu"})", [](ConfigFields& in) { in.Only("k", "silu"); }),
            "f.json: text_config.k is \"gelu\", expected \"silu\", the only kind this engine computes");
  EXPECT_EQ(ErrorOf("{}", [](ConfigFields& in) { in.Must("k", true); }),
            "f.json: text_config.k is missing, expected true");
  EXPECT_EQ(ErrorOf(R"({"k": true})", [](ConfigFields& in) { in.Must("k", true); }), "");
}

}  // namespace
}  // namespace numoe
