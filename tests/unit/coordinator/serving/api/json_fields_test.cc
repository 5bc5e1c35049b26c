// Fields of requests: which values are read, and errors that name the field and what was found.
#include "coordinator/serving/api/json_fields.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;

// The message of the error that `read` causes in an object; "" if there is none.
template <typename Read>
std::string FieldError(const char* json, Read read, std::string path = "") {
  const ordered_json root = ordered_json::parse(json);
  JsonFields in(root, std::move(path));
  read(in);
  return in.error() ? in.error()->message : "";
}

TEST(JsonFieldsTest, MissingAndNullFieldsChangeNothing) {
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

TEST(JsonFieldsTest, NumbersHaveLimitsAndMayHaveToBeIntegers) {
  const auto whole = [](JsonFields& in) {
    int n = 0;
    in.Number("n", -1, 5, n);
  };
  const auto real = [](JsonFields& in) {
    double n = 0;
    in.Number("n", 0, 2, n);
  };
  EXPECT_EQ(FieldError(R"({"n": 5})", whole), "");
  for (const char* same : {R"({"n": 4.0})", R"({"n": 40e-1})", R"({"n": -1.0})"})
    EXPECT_EQ(FieldError(same, whole), "") << same;
  EXPECT_EQ(FieldError(R"({"n": 6.0})", whole), "'n': expected an integer from -1 to 5, found 6.0");
  EXPECT_EQ(FieldError(R"({"n": 6})", whole), "'n': expected an integer from -1 to 5, found 6");
  EXPECT_EQ(FieldError(R"({"n": 1.5})", whole), "'n': expected an integer from -1 to 5, found 1.5");
  EXPECT_EQ(FieldError(R"({"n": true})", whole), "'n': expected an integer from -1 to 5, found true");
  EXPECT_EQ(FieldError(R"({"n": 99999999999999999999})", whole),
            "'n': expected an integer from -1 to 5, found 1e+20");
  EXPECT_EQ(FieldError(R"({"n": 2})", real), "");
  EXPECT_EQ(FieldError(R"({"n": "1"})", real), "'n': expected a number from 0 to 2, found \"1\"");
}

TEST(JsonFieldsTest, ErrorsOfTypesSayWhatWasFound) {
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
            "'l[1]': expected a string that is not empty, found \"\"");
  EXPECT_EQ(FieldError(R"({"l": ""})", [&](JsonFields& in) { in.Strings("l", 2, l); }),
            "'l': expected a string that is not empty, found \"\"");
  const auto ids = [&](JsonFields& in) { in.Tokens("t", t); };
  EXPECT_EQ(FieldError(R"({"t": 5})", ids), "'t': expected a list, found 5");
  for (const char* wrong : {"-1", "1.5", "2147483648", "\"1\"", "null"}) {
    EXPECT_EQ(FieldError(("{\"t\": [7, " + std::string(wrong) + "]}").c_str(), ids),
              "'t[1]': expected a token id, found " + std::string(wrong));
  }
}

TEST(JsonFieldsTest, AStringIsAListOfOne) {
  const ordered_json root =
      ordered_json::parse(R"({"one": "a", "two": ["b", "c"], "ids": [0.0, 2147483647]})");
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

TEST(JsonFieldsTest, IntegersHave64Bits) {
  const auto read = [](const char* json) { return JsonFields::ReadInteger(ordered_json::parse(json)); };
  EXPECT_EQ(read("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(read("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(read("9007199254740993"), 9007199254740993) << "a double cannot hold this number";
  EXPECT_EQ(read("1e15"), 1'000'000'000'000'000);
  EXPECT_EQ(read("-0.0"), 0);
  for (const char* none : {"9223372036854775808", "-9223372036854775809", "18446744073709551616", "1e300",
                           "0.5", "true", "\"1\"", "null", "[1]"})
    EXPECT_EQ(read(none), std::nullopt) << none;
}

TEST(JsonFieldsTest, TheFirstErrorIsKeptAndNamesThePath) {
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

TEST(JsonFieldsTest, FieldsThatNobodyLookedUpAreUnread) {
  const ordered_json root = ordered_json::parse(
      R"({"zoo": 1, "n": 5, "gone": null, "max": 7, "limit": 8, "inner": {"m": 1, "other": 2}})");
  JsonFields in(root);
  int n = 0;
  in.Number("n", 0, 9, n);
  in.Number("max", 0, 9, n);
  in.Misplaced("limit", "max");
  JsonFields inner(*in.Object("inner"), "inner.");
  inner.Number("m", 0, 9, n);
  EXPECT_THAT(in.Unread(), ElementsAre("zoo", "limit")) << "a field whose other name was read is not obeyed";
  in.TakeUnread(inner);
  EXPECT_THAT(in.Unread(), ElementsAre("zoo", "limit", "inner.other"));
  EXPECT_FALSE(in.error().has_value());
}

TEST(JsonFieldsTest, LongAndBrokenValuesAreCutShort) {
  EXPECT_EQ(JsonFields::Short(std::string(100, 'x')).size(), 60u);
  EXPECT_EQ(JsonFields::Short("\xff"), "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace numoe::serving
