// Tools as clients declare them: which are accepted, and the place that an error names in each dialect.
#include "coordinator/serving/api/declared_functions.h"

#include <fmt/format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

const DeclarationPlaces kChatPlaces{.function = ".function", .parameters = ".parameters"};

std::optional<net::ApiError> CheckTools(const std::string& tools,
                                        const DeclarationPlaces& places = kChatPlaces) {
  ordered_json declared = ordered_json::parse(tools);
  return CheckDeclaredFunctions(places, declared);
}

std::string WrongPlace(const std::string& tools, const DeclarationPlaces& places = kChatPlaces) {
  const auto error = CheckTools(tools, places);
  if (!error) return "(accepted)";
  EXPECT_EQ(error->http_status, 400);
  EXPECT_THAT(error->message, HasSubstr("'" + *error->param + "': expected "));
  return *error->param;
}

std::string OneFunction(const std::string& function) {
  return R"([{"type": "function", "function": {)" + function + "}}]";
}

TEST(DeclaredFunctionsTest, ToolsOfClientsAreAccepted) {
  for (
      const char* function :
      {R"("name": "f")", R"("name": "get_weather-2")", R"("name": "mcp.server.read_file")",
       R"("name": "时.f-1:2")",
       R"("name": "f", "description": "d", "strict": true, "parameters": {"type": "object", "properties": {}})",
       R"("name": "f", "description": null, "strict": null, "parameters": null)",
       R"("name": "f", "parameters": {})", R"("name": "f", "parameters": {"$ref": "#/$defs/a", "$defs": {}})",
       R"("name": "f", "parameters": {"type": ["object", "null"]}, "unknown": 1)"})
    EXPECT_EQ(WrongPlace(OneFunction(function)), "(accepted)") << function;
  ordered_json untyped = ordered_json::parse(R"([{"function": {"name": "f"}}])");
  EXPECT_FALSE(CheckDeclaredFunctions(kChatPlaces, untyped));
  EXPECT_EQ(untyped[0]["type"], "function") << "templates print it";
}

TEST(DeclaredFunctionsTest, OtherToolsAreRefusedByTheirPlace) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"[1]", "tools[0]"},
      {R"(["f"])", "tools[0]"},
      {R"([{"type": "function"}])", "tools[0].function"},
      {R"([{}])", "tools[0].function"},
      {R"([{"type": "function", "function": "f"}])", "tools[0].function"},
      {R"([{"type": "function", "function": {"name": "f"}}, {"type": "web_search"}])", "tools[1].type"},
      {R"([{"type": "custom", "custom": {"name": "c"}}])", "tools[0].type"},
      {R"([{"type": "builtin_function", "function": {"name": "$web_search"}}])", "tools[0].type"},
      {R"([{"type": 1, "function": {"name": "f"}}])", "tools[0].type"},
      {R"([{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}])",
       "tools[1].function.name"}};
  for (const auto& [tools, place] : wrong) EXPECT_EQ(WrongPlace(tools), place) << tools;
  EXPECT_THAT(CheckTools(R"([{"type": "custom"}])")->message, HasSubstr("found \"custom\""));
}

TEST(DeclaredFunctionsTest, EveryPartOfAFunctionHasItsType) {
  for (const char* name : {"", R"("name": null)", R"("name": 1)", R"("name": "")", R"("name": "a b")",
                           R"("name": "7")", R"("name": "a{")", R"("name": "a\"b")", R"("name": "a\nb")"})
    EXPECT_EQ(WrongPlace(OneFunction(name)), "tools[0].function.name") << name;
  EXPECT_EQ(WrongPlace(OneFunction("\"name\": \"" + std::string(257, 'a') + "\"")), "tools[0].function.name");
  EXPECT_EQ(WrongPlace(OneFunction("\"name\": \"" + std::string(256, 'a') + "\"")), "(accepted)");
  for (const char* part :
       {R"("description": 1)", R"("description": [])", R"("strict": "yes")", R"("strict": 1)",
        R"("parameters": [])", R"("parameters": "x")", R"("parameters": {"type": "string"})",
        R"("parameters": {"type": ["array", "null"]})"}) {
    const std::string name = std::string(part).substr(1, std::string(part).find('"', 1) - 1);
    EXPECT_EQ(WrongPlace(OneFunction(R"("name": "f", )" + std::string(part))), "tools[0].function." + name)
        << part;
  }
}

TEST(DeclaredFunctionsTest, PlacesAreThoseOfTheDialect) {
  const DeclarationPlaces anthropic{.function = "", .parameters = ".input_schema"};
  EXPECT_EQ(WrongPlace(OneFunction(R"("name": "")"), anthropic), "tools[0].name");
  EXPECT_EQ(WrongPlace(OneFunction(R"("name": "f", "parameters": {"type": "null"})"), anthropic),
            "tools[0].input_schema");
}

TEST(DeclaredFunctionsTest, ThereIsALimit) {
  ordered_json many = ordered_json::array();
  for (int i = 0; i < 1024; ++i)
    many.push_back({{"type", "function"}, {"function", {{"name", fmt::format("f{}", i)}}}});
  EXPECT_FALSE(CheckDeclaredFunctions(kChatPlaces, many));
  many.push_back(many[0]);
  EXPECT_EQ(CheckDeclaredFunctions(kChatPlaces, many)->param, "tools");
}

}  // namespace
}  // namespace numoe::serving
