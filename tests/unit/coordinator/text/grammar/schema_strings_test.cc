// Strings of JSON schemas: lengths, patterns and formats, together, and the names that members may have.
#include "coordinator/text/grammar/schema_strings.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/schema_cases.h"

namespace numoe::text {
namespace {

using ::testing::HasSubstr;

// A compilation with the root schema `text`, and the facts of that schema.
struct Strings {
  explicit Strings(const char* text)
      : root(nlohmann::ordered_json::parse(text)), shared(root, limits, expressions), compiler(shared) {
    shared.Absorb({shared.reader().root()}, facts);
  }
  const nlohmann::ordered_json root;
  const GrammarLimits limits;
  grammar::Expressions expressions;
  grammar::SharedCompilation shared;
  grammar::StringCompiler compiler;
  grammar::SchemaFacts facts;
};

TEST(SchemaStringsTest, KeywordsNarrowEachOther) {
  CheckSchema(
      {{R"({"type":"string","minLength":2,"maxLength":3})",
        {"\"ab\"", "\"日本語\"", R"("\n\ud83d\ude00")", R"("\"\\")"},
        {"\"a\"", "\"abcd\"", "\"日本語x\"", R"("\u0041")"}},
       {R"({"minLength":1})", {"\"a\""}, {"\"\"", "1"}},
       {R"({"type":"string","pattern":"^a+$"})", {"\"a\"", "\"aaa\""}, {"\"\"", "\"ab\"", "\"ba\""}},
       {R"({"type":"string","pattern":"b"})", {"\"b\"", "\"abc\"", R"("\nb\"")"}, {"\"\"", "\"ac\""}},
       {R"j({"type":"string","pattern":"^(a|b$)"})j", {"\"ax\"", "\"b\""}, {"\"bx\"", "\"c\""}},
       {R"({"type":"string","pattern":"^\"[\\\\/]\\n$"})", {R"("\"\\\n")", R"("\"/\n")"}, {R"("\"\/\n")"}},
       {R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":3})",
        {"\"ab\"", "\"abc\""},
        {"\"a\"", "\"abcd\"", "\"AB\""}},
       {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}],"type":"string"})",
        {"\"ab\"", "\"b a\""},
        {"\"a\"", "\"b\""}},
       {R"({"type":"string","format":"int64"})", {"\"whatever\""}, {"1"}}});
}

TEST(SchemaStringsTest, BoundsThatNoTextReachesAreIgnored) {
  for (const char* schema :
       {R"({"type":"string","maxLength":5000000})", R"({"type":"string","maxLength":1e15})",
        R"({"type":"string","pattern":"^[a-z]*$","maxLength":5000000})",
        R"({"type":"array","items":{"type":"string"},"maxItems":5000000})",
        R"({"type":"array","prefixItems":[{"type":"string"}],"items":true,"maxItems":5000000})",
        R"({"type":"object","additionalProperties":{"type":"null"},"maxProperties":5000000})"})
    EXPECT_NE(Compiled(Kind::kJsonSchema, schema), nullptr) << schema;
  for (const char* schema :
       {R"({"type":"string","minLength":5000000})", R"({"type":"array","minItems":5000000})",
        R"({"type":"string","minLength":5000000,"maxLength":6000000})"})
    EXPECT_THAT(CompileError(Kind::kJsonSchema, schema), HasSubstr("no context holds the")) << schema;
}

TEST(SchemaStringsTest, AStringIsAllowedIfAllKeywordsAllowIt) {
  Strings s(R"({"pattern":"^a","maxLength":2})");
  EXPECT_TRUE(s.compiler.Holds("a\"", s.facts)) << "it counts as one character";
  EXPECT_FALSE(s.compiler.Holds("ab\"", s.facts));
  EXPECT_FALSE(s.compiler.Holds("b", s.facts));
  EXPECT_TRUE(s.compiler.Holds("anything", {}));
  EXPECT_TRUE(s.shared.ok());
}

TEST(SchemaStringsTest, TheMachineOfAPatternIsMadeOnce) {
  Strings s("{}");
  const grammar::StringMachine machine = s.compiler.OfPattern("^a+$", "#/a");
  EXPECT_TRUE(grammar::Matches(*machine, "aa"));
  EXPECT_EQ(s.compiler.OfPattern("^a+$", "#/b"), machine);
}

TEST(SchemaStringsTest, NamesOfMembers) {
  Strings any("{}");
  EXPECT_EQ(any.compiler.OfKeys(any.facts), nullptr);
  Strings listed(R"({"propertyNames":{"enum":["ab","c",3],"maxLength":1}})");
  const grammar::StringMachine names = listed.compiler.OfKeys(listed.facts);
  ASSERT_NE(names, nullptr);
  EXPECT_TRUE(grammar::Matches(*names, "c"));
  EXPECT_FALSE(grammar::Matches(*names, "ab"));
}

TEST(SchemaStringsTest, AWrongPatternFailsTheCompilationAndMatchesNothing) {
  Strings s("{}");
  const grammar::StringMachine machine = s.compiler.OfPattern("(", "#/properties/x");
  ASSERT_NE(machine, nullptr);
  EXPECT_FALSE(grammar::Matches(*machine, ""));
  EXPECT_THAT(s.shared.status().message(), HasSubstr("#/properties/x"));
}

}  // namespace
}  // namespace numoe::text
