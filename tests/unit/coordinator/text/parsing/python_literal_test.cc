// Python's literals as JSON, and texts that are not literals.
#include "coordinator/text/parsing/python_literal.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace numoe::text {
namespace {

std::string Json(std::string_view literal) { return JsonOfPythonLiteral(literal).value_or("none"); }

TEST(PythonLiteralTest, ValuesBecomeJson) {
  EXPECT_EQ(Json("{'a': True, 'b': None}"), R"({"a": true, "b": null})");
  EXPECT_EQ(Json(" [1, -2.5, 'x', (), (1,), (1, 2), (1)] "), R"([1, -2.5, "x", [], [1], [1, 2], 1])");
  EXPECT_EQ(Json("{\"it's\": 'say \"so\"', 1: [], None: {}, 1.5: (),}"),
            R"({"it's": "say \"so\"", "1": [], "null": {}, "1.5": []})");
  EXPECT_EQ(Json(R"('a\'b\n\t\\ \x41 \u00fc \U0001F642 \ud83d\ude42 \q')"),
            "\"a'b\\n\\t\\\\ A ü 🙂 🙂 \\\\q\"");
  EXPECT_EQ(Json("true"), "true");
  EXPECT_EQ(Json("''"), "\"\"");
}

TEST(PythonLiteralTest, NumbersAsJsonWritesThem) {
  for (const auto& [python, json] : {std::pair("+1", "1"),
                                     {"-1", "-1"},
                                     {".5", "0.5"},
                                     {"5.", "5.0"},
                                     {"1_000", "1000"},
                                     {"1e5", "1e5"},
                                     {"-2.E-3", "-2.0E-3"},
                                     {"0", "0"}}) {
    EXPECT_EQ(Json(python), json);
    EXPECT_TRUE(nlohmann::json::accept(json)) << json;
  }
}

TEST(PythonLiteralTest, AnythingElseIsRefused) {
  for (const char* text : {"",
                           "[",
                           "[1",
                           "{",
                           "{'a'}",
                           "{'a': }",
                           "{'a' 1}",
                           "{1, 2}",
                           "{[1]: 2}",
                           "[1 2]",
                           "[,]",
                           "'a",
                           "'a\nb'",
                           "'\\x4'",
                           "'\\ud800'",
                           "'\\ud800\\u0041'",
                           "'\\U00110000'",
                           "set()",
                           "f(1)",
                           "1 + 2",
                           "Truely",
                           "007",
                           "1__",
                           "1e",
                           ".",
                           "-",
                           "--1",
                           "nan",
                           "b'x'",
                           "{'a': 1} x"})
    EXPECT_EQ(Json(text), "none") << text;
}

TEST(PythonLiteralTest, NestingIsBounded) {
  const auto nested = [](size_t depth) { return Json(std::string(depth, '[') + std::string(depth, ']')); };
  EXPECT_NE(nested(50), "none");
  EXPECT_EQ(nested(100), "none");
  EXPECT_EQ(nested(1'000'000), "none");
}

}  // namespace
}  // namespace numoe::text
