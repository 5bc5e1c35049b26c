// Fields of requests: what leaves its default, and errors that name the field and what was found.
#include "coordinator/serving/api/json_fields.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;

// The message of the error that `read` meets in an object, "" if none.
template <typename Read>
std::string FieldError(const char* json, Read read, std::string path = "") {
  const ordered_json root = ordered_json::parse(json);
  JsonFields in(root, std::move(path));
  read(in);
  return in.error() ? in.error()->message : "";
}

TEST(JsonFieldsTest, WhatIsMissingOrNullStaysAsItIs) {
  const ordered_json root = ordered_json::parse(R"({"n": null, "b": null, "s": null, "t": null, "l": null})");
  JsonFields in(root);
  int n = 7;
  bool b = true;
  std::string s = "x";
  std::vector<TokenId> t = {1};
  std::vector<std::string> l = {"y"};
  for (const char* suffix : {"", "_missing"}) {
    in.Number(("n" + std::string(suffix)).c_str(), 0, 9, n);
    in.Bool(("b" + std::string(suffix)).c_str(), b);
    in.String(("s" + std::string(suffix)).c_str(), s);
    in.Tokens(("t" + std::string(suffix)).c_str(), t);
    in.Strings(("l" + std::string(suffix)).c_str(), 4, l);
    EXPECT_EQ(in.Object(("n" + std::string(suffix)).c_str()), nullptr);
    EXPECT_EQ(in.Array(("n" + std::string(suffix)).c_str()), nullptr);
  }
  EXPECT_FALSE(in.error().has_value());
  EXPECT_EQ(n, 7);
  EXPECT_TRUE(b);
  EXPECT_EQ(s, "x");
  EXPECT_THAT(t, ElementsAre(1));
  EXPECT_THAT(l, ElementsAre("y"));
}

TEST(JsonFieldsTest, NumbersAreBoundedAndWholeWhereTheyMustBe) {
  const auto whole = [](JsonFields& in) {
    int n = 0;
    in.Number("n", -1, 5, n);
  };
  const auto real = [](JsonFields& in) {
    double n = 0;
    in.Number("n", 0, 2, n);
  };
  EXPECT_EQ(FieldError(R"({"n": 5})", whole), "");
  EXPECT_EQ(FieldError(R"({"n": 6})", whole), "'n': expected an integer from -1 to 5, found 6");
  EXPECT_EQ(FieldError(R"({"n": 1.5})", whole), "'n': expected an integer from -1 to 5, found 1.5");
  EXPECT_EQ(FieldError(R"({"n": true})", whole), "'n': expected an integer from -1 to 5, found true");
  EXPECT_EQ(FieldError(R"({"n": 99999999999999999999})", whole),
            "'n': expected an integer from -1 to 5, found 1e+20");
  EXPECT_EQ(FieldError(R"({"n": 2})", real), "");
  EXPECT_EQ(FieldError(R"({"n": "1"})", real), "'n': expected a number from 0 to 2, found \"1\"");
}

TEST(JsonFieldsTest, WrongTypesAreToldWhatWasFound) {
  std::string s;
  bool b = false;
  std::vector<std::string> l;
  std::vector<TokenId> t;
  EXPECT_EQ(FieldError(R"({"s": 5})", [&](JsonFields& in) { in.String("s", s); }),
            "'s': expected a string, found 5");
  EXPECT_EQ(FieldError(R"({"b": 0})", [&](JsonFields& in) { in.Bool("b", b); }),
            "'b': expected true or false, found 0");
  EXPECT_EQ(FieldError(R"({"o": []})", [&](JsonFields& in) { in.Object("o"); }),
            "'o': expected an object, found []");
  EXPECT_EQ(FieldError(R"({"o": {}})", [&](JsonFields& in) { in.Array("o"); }),
            "'o': expected a list, found {}");
  EXPECT_EQ(FieldError(R"({"l": ["a", "b", "c"]})", [&](JsonFields& in) { in.Strings("l", 2, l); }),
            "'l': expected a string or a list of at most 2 strings, found [\"a\",\"b\",\"c\"]");
  EXPECT_EQ(FieldError(R"({"l": ["a", ""]})", [&](JsonFields& in) { in.Strings("l", 2, l); }),
            "'l': expected strings that are not empty, found \"\"");
  for (const char* tokens : {R"({"t": 5})", R"({"t": [-1]})", R"({"t": [1.0]})", R"({"t": [2147483648]})"})
    EXPECT_EQ(FieldError(tokens, [&](JsonFields& in) { in.Tokens("t", t); }).substr(0, 36),
              "'t': expected a list of token ids, f")
        << tokens;
}

TEST(JsonFieldsTest, AStringIsAListOfOne) {
  const ordered_json root = ordered_json::parse(R"({"one": "a", "two": ["b", "c"], "ids": [0, 2147483647]})");
  JsonFields in(root);
  std::vector<std::string> one, two;
  std::vector<TokenId> ids;
  in.Strings("one", 2, one);
  in.Strings("two", 2, two);
  in.Tokens("ids", ids);
  EXPECT_THAT(one, ElementsAre("a"));
  EXPECT_THAT(two, ElementsAre("b", "c"));
  EXPECT_THAT(ids, ElementsAre(0, INT32_MAX));
}

TEST(JsonFieldsTest, TheFirstErrorStaysAndNamesThePath) {
  const ordered_json root = ordered_json::parse(R"({"s": 1, "b": 2})");
  JsonFields outer(root), inner(root, "params.");
  std::string s;
  bool b = false;
  inner.String("s", s);
  inner.Bool("b", b);
  outer.Take(inner);
  outer.Bool("b", b);
  ASSERT_TRUE(outer.error().has_value());
  EXPECT_EQ(outer.error()->message, "'params.s': expected a string, found 1");
  EXPECT_EQ(outer.error()->param, "params.s");
  EXPECT_EQ(outer.error()->http_status, 400);
}

TEST(JsonFieldsTest, LongAndBrokenValuesAreCutShort) {
  EXPECT_EQ(JsonFields::Short(std::string(100, 'x')).size(), 60u);
  EXPECT_EQ(JsonFields::Short("\xff"), "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace numoe::serving
