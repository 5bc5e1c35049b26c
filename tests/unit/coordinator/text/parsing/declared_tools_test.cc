// Reading of declarations of any shape, and the choice of a tool for arguments without a name.
#include "coordinator/text/parsing/declared_tools.h"

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;

TEST(DeclaredToolsTest, MalformedPartsAreLeftOut) {
  const auto tools = ReadDeclaredTools(ordered_json::parse(R"([
    1, {}, {"type": "function"}, {"function": {"name": 5}}, {"function": []},
    {"function": {"name": "a"}},
    {"function": {"name": "b", "parameters": {"properties": {"x": {}, "y": true}, "required": ["x", 1]}}},
    {"function": {"name": "c", "parameters": {"properties": [], "required": "x"}}}])"));
  ASSERT_EQ(tools.size(), 3u);
  EXPECT_EQ(tools[0].name, "a");
  EXPECT_EQ(tools[1].properties, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(tools[1].required, std::vector<std::string>{"x"});
  EXPECT_TRUE(tools[2].properties.empty() && tools[2].required.empty());
  EXPECT_TRUE(ReadDeclaredTools(nullptr).empty() && ReadDeclaredTools(ordered_json::object()).empty());
}

TEST(DeclaredToolsTest, TypesOfSchemas) {
  const auto tools = ReadDeclaredTools(ordered_json::parse(R"([{"function": {"name": "f", "parameters": {
    "$defs": {"a": {"type": "array"}, "loop": {"$ref": "#/$defs/loop"}}, "properties": {
    "s": {"type": "string"}, "i": {"type": "integer"}, "either": {"type": ["number", "null", 5]}, "none": {},
    "odd": {"type": "colour"}, "any": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/a"}]}, "e": {"enum": ["x", 1]},
    "c": {"const": {}}, "ref": {"$ref": "#/$defs/a"}, "lost": {"$ref": "#/$defs/z"}, "loop": {"$ref": "#/$defs/loop"},
    "far": {"$ref": "http://x"}, "true": true}}}}])"));
  ASSERT_EQ(tools.size(), 1u);
  const std::map<std::string, ValueTypes> expected = {{"s", kStringValue},
                                                      {"i", kNumberValue},
                                                      {"either", kNumberValue | kNullValue},
                                                      {"any", kBooleanValue | kArrayValue},
                                                      {"e", kStringValue | kNumberValue},
                                                      {"c", kObjectValue},
                                                      {"ref", kArrayValue}};
  EXPECT_EQ(tools[0].types, expected);
}

TEST(DeclaredToolsTest, TypeNamesOfOtherLanguages) {
  const auto type_of = [](const std::string& name) {
    const auto tools = ReadDeclaredTools(
        {{{"function", {{"name", "f"}, {"parameters", {{"properties", {{"x", {{"type", name}}}}}}}}}}});
    return tools.at(0).types.count("x") == 0 ? ValueTypes{0} : tools[0].types.at("x");
  };
  for (const char* name : {"str", "String", "text", "varchar", "char"})
    EXPECT_EQ(type_of(name), kStringValue) << name;
  for (const char* name :
       {"int", "int32", "uint", "long", "short", "unsigned", "num", "float", "double", "Float64"})
    EXPECT_EQ(type_of(name), kNumberValue) << name;
  for (const char* name : {"bool", "binary", "BOOLEAN"}) EXPECT_EQ(type_of(name), kBooleanValue) << name;
  for (const char* name : {"arr", "list", "list[str]", "tuple"})
    EXPECT_EQ(type_of(name), kArrayValue) << name;
  for (const char* name : {"dict", "dict[str, int]"}) EXPECT_EQ(type_of(name), kObjectValue) << name;
  for (const char* name : {"", "any", "date", "booleans"}) EXPECT_EQ(type_of(name), 0) << name;
}

TEST(DeclaredToolsTest, TheOnlyToolThatFitsTheArguments) {
  const std::vector<DeclaredTool> tools = {{"a", {"x"}, {"x"}}, {"b", {"x", "y"}, {"x", "y"}}, {"c", {}, {}}};
  EXPECT_EQ(ToolByArguments(tools, R"({"x": 1})"), "a");
  EXPECT_EQ(ToolByArguments(tools, R"({"y": 1, "x": 2})"), "b");
  EXPECT_EQ(ToolByArguments(tools, "{}"), "c");
  for (const char* none : {R"({"z": 1})", R"({"y": 1})", "", "{", "[]", "null"})
    EXPECT_EQ(ToolByArguments(tools, none), "") << none;
  EXPECT_EQ(ToolByArguments({{"a", {"x"}, {}}, {"b", {"x"}, {}}}, R"({"x": 1})"), "") << "two fit";
  EXPECT_EQ(ToolByArguments({{"a", {"x"}, {"x"}}}, "oops"), "a") << "the only tool";
  EXPECT_EQ(ToolByArguments({}, "{}"), "");
}

}  // namespace
}  // namespace numoe::text
