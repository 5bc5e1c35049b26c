// Structural tags in both forms: free text, the tags after a trigger, and every refusal with its place.
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {
namespace {

using ::testing::HasSubstr;

void CheckTag(const std::string& source, const std::vector<std::string>& valid,
              const std::vector<std::string>& invalid) {
  SCOPED_TRACE(source);
  std::mt19937_64 random(1);
  const GrammarPtr grammar = Compiled(Kind::kStructuralTag, source);
  ASSERT_NE(grammar, nullptr);
  for (const std::string& text : valid) EXPECT_TRUE(Accepts(grammar, text)) << text;
  for (const std::string& text : valid) EXPECT_TRUE(AcceptsSplit(grammar, text, random)) << text;
  for (const std::string& text : invalid) EXPECT_FALSE(Accepts(grammar, text)) << text;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Accepts(grammar, RandomText(grammar, random)));
}

constexpr char kNumber[] = R"({"type": "integer"})";

TEST(StructuralTagTest, TheFormWithStructures) {
  CheckTag(
      std::string(R"({"type": "structural_tag", "structures": [{"begin": "<f=a>", "schema": )") + kNumber +
          R"(, "end": "</f>"}, {"begin": "<f=b>", "schema": "{\"type\":\"null\"}", "end": "</f>"}], "triggers": ["<f="]})",
      {"", "text", "<f", "<f>", "<f=a>12</f>", "say <f=b>null</f> or <f=a>-3</f><f=a>0</f>.", "<<f=a>1</f>",
       "日本<"},
      {"<f=", "<f=c>1</f>", "<f=a>x</f>", "<f=a>12</f", "<f=b>1</f>", "x <f=a>1</f> <f=", "\xE6"});
}

TEST(StructuralTagTest, TriggersAndTagsOfTheFormWithFormat) {
  const auto triggered = [](const std::string& more) {
    return R"({"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<", "[["], "tags": [
               {"begin": "<x>", "content": {"type": "regex", "pattern": "[0-9]+"}, "end": "</x>"},
               {"begin": "[[", "content": {"type": "const_string", "value": "k"}, "end": ["]]", ">>"]}])" +
           more + "}}";
  };
  CheckTag(triggered(""), {"", "a[b", "<x>1</x>", "a [[k]] b [[k>> <x>22</x>", "[[k]][[k]]"},
           {"<", "<y", "[[", "[[k]", "[[[k]]"});
  CheckTag(triggered(R"(, "at_least_one": true)"), {"a<x>1</x>", "<x>1</x>[[k]]z"}, {"", "a"});
  CheckTag(triggered(R"(, "stop_after_first": true)"), {"", "a", "a<x>1</x>"},
           {"<x>1</x>b", "<x>1</x><x>1</x>"});
  CheckTag(triggered(R"(, "at_least_one": true, "stop_after_first": true)"), {"a<x>1</x>"},
           {"a", "<x>1</x>b"});
}

TEST(StructuralTagTest, EveryTypeOfFormat) {
  const auto format = [](const std::string& inner) { return R"({"format": )" + inner + "}"; };
  CheckTag(format(R"({"type": "const_string", "value": "ab"})"), {"ab"}, {"", "abc"});
  CheckTag(format(R"({"type": "json_schema", "json_schema": {"enum": [1, "x"]}})"), {"1", "\"x\""}, {"2"});
  CheckTag(format(R"({"type": "grammar", "grammar": "root ::= \"(\" root \")\" | \"\""})"), {"", "(())"},
           {"("});
  CheckTag(format(R"({"type": "any_text"})"), {"", "anything 日本"}, {"\xFF"});
  CheckTag(format(R"({"type": "any_text", "excludes": ["no", "\n"]})"), {"", "yes n"}, {"no", "a\n"});
  CheckTag(format(R"({"type": "or", "elements": [{"type": "const_string", "value": "a"},
                      {"type": "sequence", "elements": [{"type": "const_string", "value": "b"}, {"type": "regex", "pattern": "c*"}]}]})"),
           {"a", "b", "bcc"}, {"", "ab"});
  CheckTag(format(R"({"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"})"),
           {"<t></t>", "<t>a < b</t>"}, {"<t>", "<t>a</t>b</t>", "<t>a</t>b"});
  CheckTag(format(R"({"type": "tags_with_separator", "separator": ",", "tags": [
                      {"begin": "a", "content": {"type": "const_string", "value": "1"}, "end": ";"},
                      {"begin": "b", "content": {"type": "const_string", "value": "2"}, "end": ""}]})"),
           {"", "a1;", "b2,a1;,b2"}, {",", "a1;a1;", "a1;,"});
  CheckTag(
      format(
          R"({"type": "tags_with_separator", "separator": ",", "at_least_one": true, "stop_after_first": true,
                      "tags": [{"begin": "a", "content": {"type": "const_string", "value": "1"}, "end": ";"}]})"),
      {"a1;"}, {"", "a1;,a1;"});
  CheckTag(format(R"({"type": "sequence", "elements": [
                      {"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"},
                      {"type": "triggered_tags", "triggers": ["<f"], "tags": [
                        {"begin": "<f>", "content": {"type": "json_schema", "json_schema": {"type": "object"}}, "end": "</f>"}]}]})"),
           {"<think>so</think>", "<think></think>I call <f>{\"a\": 1}</f> now"},
           {"", "<think>x", "<think>x</think><f>1</f>"});
}

TEST(StructuralTagTest, ErrorsGiveTheirPlace) {
  for (
      const auto& [source, expected] : std::vector<std::pair<const char*, const char*>>{
          {"[]", "the structural tag is not an object"},
          {"{}", "structural_tag: structures is missing"},
          {R"({"structures": [{"begin": "a", "end": "b"}], "triggers": ["a"]})",
           "structures[0]: schema is missing"},
          {R"({"structures": [{"begin": "a", "schema": {"not": {}}, "end": ""}], "triggers": ["a"]})",
           "structures[0].schema"},
          {R"({"structures": [{"begin": "a", "schema": {}, "end": ""}], "triggers": ["b"]})",
           "no tag begins with the trigger b"},
          {R"({"structures": [{"begin": "a", "schema": {}, "end": ""}, {"begin": "c", "schema": {}, "end": ""}], "triggers": ["a"]})",
           "tag 1 does not begin with a trigger: c"},
          {R"({"structures": [{"begin": "a", "schema": {}, "end": ""}], "triggers": [""]})", "trigger"},
          {R"({"format": {"type": "qwen_xml_parameter"}})",
           "format: the type qwen_xml_parameter is not supported"},
          {R"({"format": {"type": "sequence", "elements": [{"type": "regex", "pattern": "("}]}})",
           "format.elements[0]"},
          {R"({"format": {"type": "tag", "begin": "a", "content": 5, "end": "b"}})",
           "format.content: expected an object"},
          {R"({"format": {"type": "triggered_tags", "triggers": [], "tags": []}})", "format"},
          {R"({"format": {"type": "any_text", "excludes": [""]}})", "an empty text"}})
    EXPECT_THAT(CompileError(Kind::kStructuralTag, source), HasSubstr(expected)) << source;
  std::string deep;
  for (int i = 0; i < 120; ++i) deep += R"({"type": "or", "elements": [)";
  EXPECT_THAT(CompileError(
                  Kind::kStructuralTag, R"({"format": )" + deep + "{}" +
                                            [] {
                                              std::string close;
                                              for (int i = 0; i < 120; ++i) close += "]}";
                                              return close;
                                            }() +
                                            "}"),
              HasSubstr("nest"));
}

}  // namespace
}  // namespace numoe::text
