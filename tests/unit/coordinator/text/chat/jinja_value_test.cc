// Values: the trust of text, Python's comparisons and printed forms, JSON.
#include "coordinator/text/chat/jinja_value.h"

#include <cmath>

#include "coordinator/text/chat/jinja_json.h"
#include "coordinator/text/chat/jinja_repr.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

using nlohmann::ordered_json;

Value Read(const char* json) { return FromJson(ordered_json::parse(json)); }

std::string Marked(const Str& text) {  // untrusted runs in brackets
  std::string out;
  for (const TextSegment& segment : text.Segments())
    out += segment.trusted ? segment.text : "[" + segment.text + "]";
  return out;
}

TEST(JinjaStrTest, EveryByteKeepsItsTrust) {
  Str text("ab", true);
  text.Append(Str("cd", false));
  text.Append(Str("ef", false));
  text.Append(Str("", true));
  EXPECT_EQ(Marked(text), "ab[cdef]");
  EXPECT_FALSE(text.AllTrusted());
  EXPECT_EQ(Marked(text.Substr(1, 2)), "b[c]");
  EXPECT_EQ(Marked(text.Substr(0, 2)), "ab");
  EXPECT_TRUE(text.Substr(0, 2).AllTrusted());
  EXPECT_EQ(Marked(text.Substr(3, 99)), "[def]");
  EXPECT_EQ(Marked(text.Substr(99, 1)), "");
  text.Append(text);
  EXPECT_EQ(Marked(text), "ab[cdef]ab[cdef]");
}

TEST(JinjaValueTest, StringsOfARequestAreUntrustedAtEveryDepth) {
  const Value value = Read(R"({"k": ["x"]})");
  EXPECT_FALSE(value.dict()->items[0].first.str()->AllTrusted());
  EXPECT_FALSE((*value.dict()->items[0].second.list())[0].str()->AllTrusted());
  EXPECT_FALSE(ToStr(value).AllTrusted());
  EXPECT_FALSE(ToStr(Value::NewList({Value::Text("own")})).AllTrusted())
      << "the template did not write the text in a list";
}

TEST(JinjaValueTest, NumbersOfARequestKeepTheirSign) {
  EXPECT_EQ(Repr(Read("[9223372036854775807, -9223372036854775808]")),
            "[9223372036854775807, -9223372036854775808]");
  EXPECT_EQ(Repr(Read("9223372036854775808")), "9.223372036854776e+18")
      << "numbers beyond 64 bits are rounded";
}

TEST(JinjaValueTest, Truth) {
  for (const char* json : {"null", "false", "0", "0.0", "\"\"", "[]", "{}"})
    EXPECT_FALSE(Truthy(Read(json))) << json;
  for (const char* json : {"true", "-1", "0.1", "\"0\"", "[0]", "{\"a\": 0}"})
    EXPECT_TRUE(Truthy(Read(json))) << json;
  EXPECT_FALSE(Truthy(Undefined{"x"}));
  EXPECT_TRUE(Truthy(Callable{"range", nullptr}));
  auto empty = std::make_shared<Dict>();
  empty->is_namespace = true;
  EXPECT_TRUE(Truthy(Value(empty))) << "an object without a length is true";
}

TEST(JinjaValueTest, EqualityIsLikeInPython) {
  EXPECT_TRUE(Equal(Read("1"), Read("1.0")));
  EXPECT_TRUE(Equal(Read("1"), Read("true")));
  EXPECT_FALSE(Equal(Read("1"), Read("\"1\"")));
  EXPECT_FALSE(Equal(Read("null"), Read("false")));
  EXPECT_FALSE(Equal(Read("9007199254740993"), Read("9007199254740992")))
      << "these differ in more digits than a double has";
  EXPECT_TRUE(Equal(Read("[1, [2]]"), Read("[1.0, [2]]")));
  EXPECT_FALSE(Equal(Read("[1]"), Read("[1, 1]")));
  EXPECT_TRUE(Equal(Read(R"({"a": 1, "b": 2})"), Read(R"({"b": 2, "a": 1})"))) << "in any order";
  EXPECT_FALSE(Equal(Read(R"({"a": 1})"), Read(R"({"a": 2})")));
  EXPECT_TRUE(Equal(Callable{"range", nullptr}, Callable{"range", nullptr}));
  EXPECT_FALSE(Equal(Callable{"range", nullptr}, Callable{"dict", nullptr}));
}

TEST(JinjaValueTest, OrderIsLikeInPythonAndMixedKindsHaveNone) {
  EXPECT_EQ(Compare(Read("1"), Read("1.5")), -1);
  EXPECT_EQ(Compare(Read("true"), Read("1")), 0);
  EXPECT_EQ(Compare(Read("\"b\""), Read("\"a\"")), 1);
  EXPECT_EQ(Compare(Read("\"ｚ\""), Read("\"😀\"")), -1) << "the order of code points, not of UTF-16";
  EXPECT_EQ(Compare(Read("[1, 2]"), Read("[1, 2, 0]")), -1);
  EXPECT_EQ(Compare(Read("[2]"), Read("[1, 5]")), 1);
  EXPECT_EQ(Compare(Read("[1, \"a\"]"), Read("[1, 2]")), std::nullopt);
  EXPECT_EQ(Compare(Read("1"), Read("\"1\"")), std::nullopt);
  EXPECT_EQ(Compare(Read("{}"), Read("{}")), std::nullopt);
}

TEST(JinjaValueTest, SpellingsOfFloats) {
  EXPECT_EQ(FloatRepr(1), "1.0");
  EXPECT_EQ(FloatRepr(0.1), "0.1");
  EXPECT_EQ(FloatRepr(-0.0), "-0.0");
  EXPECT_EQ(FloatRepr(1e15), "1000000000000000.0");
  EXPECT_EQ(FloatRepr(1e16), "1e+16");
  EXPECT_EQ(FloatRepr(0.0001), "0.0001");
  EXPECT_EQ(FloatRepr(0.00001), "1e-05");
  EXPECT_EQ(FloatRepr(1.5e-300), "1.5e-300");
  EXPECT_EQ(FloatRepr(-INFINITY), "-inf");
  EXPECT_EQ(FloatRepr(NAN), "nan");
}

TEST(JinjaValueTest, ReprChoosesItsQuotesAndEscapes) {
  EXPECT_EQ(Repr(Value::Text("it's")), "\"it's\"");
  EXPECT_EQ(Repr(Value::Text("\"it's\"")), "'\"it\\'s\"'");
  EXPECT_EQ(Repr(Value::Text("a\\b\n\r\t\x01\x7f")), R"('a\\b\n\r\t\x01\x7f')");
  EXPECT_EQ(Repr(Read(R"({"a": [1, null, true, 0.5, "x"]})")), "{'a': [1, None, True, 0.5, 'x']}");
  EXPECT_EQ(Repr(Undefined{"x"}), "Undefined");
}

TEST(JinjaValueTest, DictsKeepTheirOrderAndFindEqualKeys) {
  Dict dict;
  dict.Set(Read("1"), Value::Text("one"));
  dict.Set(Value::Text("b"), Read("2"));
  dict.Set(Read("true"), Value::Text("yes"));
  ASSERT_EQ(dict.items.size(), 2u) << "1 and True are one key";
  EXPECT_EQ(dict.Find(Read("1.0"))->str()->text(), "yes");
  EXPECT_EQ(dict.FindName("b"), &dict.items[1].second);
  EXPECT_EQ(dict.FindName("1"), nullptr);
}

TEST(JinjaJsonTest, OneLineAndIndented) {
  const Value value = Read(R"({"b": [1, {}], "a": "é\n\"\u0001"})");
  EXPECT_EQ(ToJson(value, {}), "{\"b\": [1, {}], \"a\": \"é\\n\\\"\\u0001\"}");
  EXPECT_EQ(ToJson(value, {.indent = std::string(1, ' '), .item_separator = ",", .sort_keys = true}),
            "{\n \"a\": \"é\\n\\\"\\u0001\",\n \"b\": [\n  1,\n  {}\n ]\n}");
  EXPECT_EQ(ToJson(Value::Text("é😀"), {.ensure_ascii = true}), R"("\u00e9\ud83d\ude00")");
  EXPECT_EQ(ToJson(Value::NewList({Value(INFINITY), Value(-INFINITY), Value(NAN), Value(2.0)}), {}),
            "[Infinity, -Infinity, NaN, 2.0]");
}

TEST(JinjaJsonTest, OtherKeysAreWrittenAsText) {
  auto dict = std::make_shared<Dict>();
  dict->Set(Value(int64_t{1}), Value(None{}));
  dict->Set(Value(None{}), Value(true));
  EXPECT_EQ(ToJson(Value(dict), {}), R"({"1": null, "null": true})");
}

TEST(JinjaJsonTest, ValuesThatJsonCannotContainAreRefusedAtAnyDepth) {
  EXPECT_EQ(ToJson(Undefined{"x"}, {}), std::nullopt);
  EXPECT_EQ(ToJson(Value::NewList({Value::NewList({Callable{"range", nullptr}})}), {}), std::nullopt);
  Value deep = Value::NewList();
  for (int i = 0; i < 99; ++i) deep = Value::NewList({deep});
  EXPECT_NE(ToJson(deep, {}), std::nullopt);
  for (int i = 0; i < 3; ++i) deep = Value::NewList({deep});
  EXPECT_EQ(ToJson(deep, {}), std::nullopt);
}

TEST(JinjaValueTest, OffsetsOfCodePoints) {
  EXPECT_THAT(CodePointOffsets("aé你😀"), ::testing::ElementsAre(0, 1, 3, 6, 10));
  EXPECT_THAT(CodePointOffsets(""), ::testing::ElementsAre(0));
}

}  // namespace
}  // namespace numoe::text::jinja
