// The OpenAPI document contains every route, and everything that it refers to.
#include "coordinator/serving/api/openapi.h"

#include <set>

#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

net::Route RouteOf(std::string method, std::string pattern) {
  return {.method = std::move(method), .pattern = std::move(pattern), .summary = "s", .handle = nullptr};
}

void CheckRefs(const ordered_json& json, const ordered_json& document) {
  if (json.is_object() && json.contains("$ref")) {
    const std::string ref = json["$ref"];
    ASSERT_EQ(ref.substr(0, 2), "#/");
    EXPECT_TRUE(document.contains(ordered_json::json_pointer(ref.substr(1)))) << ref;
  }
  if (json.is_structured()) {
    for (const ordered_json& inner : json) CheckRefs(inner, document);
  }
}

TEST(OpenApiTest, EveryRouteIsDescribedWithItsNamesAndErrors) {
  net::UrlTable urls;
  urls.Add(RouteOf("GET", "/v1/things/{}"));
  urls.Add(RouteOf("DELETE", "/v1/things/{}"));
  net::Route messages = RouteOf("POST", "/v1/messages");
  messages.errors = net::ErrorShape::kAnthropic;
  messages.open = true;
  urls.Add(messages);
  const ordered_json document = OpenApiDocument(urls, "1.2");
  EXPECT_EQ(document.at("info").at("version"), "1.2");
  const ordered_json& things = document.at("paths").at("/v1/things/{thing_id}");
  EXPECT_EQ(things.at("get").at("parameters")[0].at("name"), "thing_id");
  EXPECT_TRUE(things.contains("delete"));
  EXPECT_EQ(things.at("get").at("responses").at("default").at("$ref"), "#/components/responses/Error");
  EXPECT_FALSE(things.at("get").contains("security")) << "the security of the document applies";
  const ordered_json& post = document.at("paths").at("/v1/messages").at("post");
  EXPECT_EQ(post.at("responses").at("default").at("$ref"), "#/components/responses/AnthropicError");
  EXPECT_EQ(post.at("security"), ordered_json::array());
  EXPECT_EQ(post.at("responses").at("200").at("content").size(), 2u) << "a complete answer and a stream";
}

TEST(OpenApiTest, ReferencesAndSchemasCorrespond) {
  net::UrlTable urls;
  std::set<std::string> used;
  for (const RouteSchemas& route : DescribedRoutes()) urls.Add(RouteOf(route.method, route.pattern));
  const ordered_json document = OpenApiDocument(urls, "1");
  CheckRefs(document, document);
  const std::string text = document.dump();
  for (const auto& [name, schema] : document.at("components").at("schemas").items())
    EXPECT_NE(text.find("\"#/components/schemas/" + name + "\""), std::string::npos) << name;
  std::set<std::string> ids;
  for (const auto& [path, methods] : document.at("paths").items()) {
    for (const auto& [method, operation] : methods.items())
      EXPECT_TRUE(ids.insert(operation.at("operationId")).second) << path;
  }
}

}  // namespace
}  // namespace numoe::serving
