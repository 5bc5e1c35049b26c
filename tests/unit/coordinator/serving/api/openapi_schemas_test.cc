// The schemas of the OpenAPI document fit what the API itself writes and refuses.
#include "coordinator/serving/api/openapi.h"
#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/one_answer.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

// Whether a document matches a schema of the OpenAPI document, as far as the grammar supports JSON Schema.
bool IsValid(const char* name, const ordered_json& document) {
  ordered_json schema = {{"$ref", std::string("#/components/schemas/") + name},
                         {"components", {{"schemas", OpenApiSchemas()}}}};
  ordered_json& own = schema["components"]["schemas"][name];
  own["additionalProperties"] = true;
  const text::GrammarPtr grammar = text::Compiled(text::Kind::kJsonSchema, schema.dump());
  return grammar != nullptr && text::Accepts(grammar, document.dump());
}

TEST(OpenApiSchemasTest, ErrorsMatchTheirSchema) {
  const net::ApiError error{.message = "no", .param = "x"};
  EXPECT_TRUE(IsValid("Error", ordered_json::parse(error.ToJson())));
  EXPECT_TRUE(IsValid("AnthropicError", ordered_json::parse(error.ToJson(net::ErrorShape::kAnthropic))));
  EXPECT_FALSE(IsValid("Error", ordered_json::parse(R"({"error": {"message": "no"}})")))
      << "param and code are required";
}

TEST(OpenApiSchemasTest, AWholeAnswerMatchesItsSchema) {
  const ByteTokenizer tokenizer({"!<end>"});
  const std::vector<TokenId> end = {256}, prompt = {1};
  const text::OutputFormat format;
  for (const bool chat : {true, false}) {
    OneAnswer answer(chat ? ChatOf() : GenerationRequest(),
                     {.tokenizer = tokenizer, .format = format, .eos_token_ids = end, .prompt = prompt});
    answer.Take({.tokens = {'a', 256}, .finish = engine::FinishReason::kStop, .error = {}});
    const ordered_json whole = ordered_json::parse(answer.Whole());
    const ordered_json schema = OpenApiSchemas().at(chat ? "ChatCompletion" : "TextCompletion");
    for (const auto& field : schema.at("required")) EXPECT_TRUE(whole.contains(field)) << field;
    EXPECT_EQ(whole.at("object"), schema.at("properties").at("object").at("const"));
    for (const auto& [field, value] : whole.items()) {
      if (field == "choices" && chat) {
        const ordered_json& reasons =
            schema.at("properties").at("choices").at("items").at("properties").at("finish_reason").at("enum");
        EXPECT_NE(std::find(reasons.begin(), reasons.end(), value[0].at("finish_reason")), reasons.end())
            << value[0];
      }
    }
  }
}

TEST(OpenApiSchemasTest, EveryDescribedRouteHasItsSchemas) {
  const ordered_json schemas = OpenApiSchemas();
  for (const RouteSchemas& route : DescribedRoutes()) {
    for (const char* name : {route.request, route.answer, route.event})
      EXPECT_TRUE(name == nullptr || schemas.contains(name)) << route.pattern << " " << name;
    EXPECT_EQ(route.request != nullptr,
              route.method == std::string("POST") && route.pattern != std::string("/v1/responses/{}/cancel"))
        << route.pattern;
  }
}

}  // namespace
}  // namespace numoe::serving
