// Which handler answers a path, and the error if there is none.
#include "coordinator/net/http/url_table.h"

#include "gtest/gtest.h"

namespace numoe::net {
namespace {

UrlTable MakeTable() {
  UrlTable urls;
  for (const auto& [method, pattern] :
       std::initializer_list<std::pair<const char*, const char*>>{{"GET", "/v1/models"},
                                                                  {"GET", "/v1/models/{}"},
                                                                  {"POST", "/v1/responses"},
                                                                  {"GET", "/v1/responses/{}"},
                                                                  {"POST", "/v1/responses/{}/cancel"},
                                                                  {"GET", "/flush"},
                                                                  {"POST", "/flush"}}) {
    urls.Add({.method = method, .pattern = pattern, .summary = "", .handle = nullptr});
  }
  return urls;
}

std::string Found(const UrlTable& urls, const std::string& method, const std::string& path) {
  const auto found = urls.Find(method, path);
  if (const auto* error = std::get_if<ApiError>(&found)) return std::to_string(error->http_status);
  const auto& match = std::get<RouteMatch>(found);
  std::string text = match.route->pattern;
  for (const std::string& capture : match.captures) text += " " + capture;
  return text;
}

TEST(UrlTableTest, PatternsMatchSegmentBySegment) {
  const UrlTable urls = MakeTable();
  EXPECT_EQ(Found(urls, "GET", "/v1/models"), "/v1/models");
  EXPECT_EQ(Found(urls, "GET", "/v1/models/k2"), "/v1/models/{} k2");
  EXPECT_EQ(Found(urls, "POST", "/v1/responses/resp_1/cancel"), "/v1/responses/{}/cancel resp_1");
  EXPECT_EQ(Found(urls, "GET", "/v1/responses/resp_1"), "/v1/responses/{} resp_1");
  for (const char* path :
       {"", "/", "v1/models", "/v1/models/", "/v1/models/a/b", "/v1/modelsx", "//v1/models"})
    EXPECT_EQ(Found(urls, "GET", path), "404") << path;
}

TEST(UrlTableTest, APathWithOtherMethodsListsThem) {
  const UrlTable urls = MakeTable();
  EXPECT_EQ(Found(urls, "GET", "/v1/responses"), "405");
  EXPECT_EQ(Found(urls, "DELETE", "/flush"), "405");
  EXPECT_EQ(urls.Allowed("/flush"), "GET, HEAD, OPTIONS, POST");
  EXPECT_EQ(urls.Allowed("/v1/responses/x"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(urls.Allowed("/nowhere"), "");
}

TEST(UrlTableTest, PathsBelowV1AreFoundWithoutIt) {
  UrlTable urls = MakeTable();
  EXPECT_EQ(Found(urls, "GET", "/models"), "/v1/models");
  EXPECT_EQ(Found(urls, "POST", "/responses/resp_1/cancel"), "/v1/responses/{}/cancel resp_1");
  EXPECT_EQ(std::get<RouteMatch>(urls.Find("GET", "/models/k2")).path, "/v1/models/k2");
  EXPECT_EQ(Found(urls, "GET", "/responses"), "405");
  EXPECT_EQ(urls.Allowed("/responses"), "OPTIONS, POST");
  EXPECT_EQ(Found(urls, "GET", "/v1/flush"), "404") << "a path outside /v1 is not found below it";
  EXPECT_EQ(Found(urls, "GET", "/v1/v1/models"), "404");
  urls.Add({.method = "GET", .pattern = "/models", .summary = "", .handle = nullptr});
  EXPECT_EQ(Found(urls, "GET", "/models"), "/models") << "a path's own route comes first";
}

TEST(UrlTableTest, RefuseOthersReplaces404And405) {
  UrlTable urls;
  urls.Add({.method = "GET", .pattern = "/here", .summary = "", .handle = nullptr});
  urls.RefuseOthers({.http_status = 503, .message = "not yet"});
  EXPECT_TRUE(std::holds_alternative<RouteMatch>(urls.Find("GET", "/here")));
  for (const char* method : {"GET", "POST"}) {
    const auto found = urls.Find(method, method == std::string("GET") ? "/there" : "/here");
    ASSERT_TRUE(std::holds_alternative<ApiError>(found));
    EXPECT_EQ(std::get<ApiError>(found).http_status, 503);
  }
}

TEST(UrlTableTest, A404SaysWhyAPathIsAbsentOrWhereThePathsAreListed) {
  UrlTable urls = MakeTable();
  urls.Explain("/v1/embeddings", "use something else");
  urls.Explain("/v1/audio/", "nothing is spoken here");
  const auto message = [&urls](const char* method, const char* path) {
    const auto found = urls.Find(method, path);
    const auto* error = std::get_if<ApiError>(&found);
    EXPECT_EQ(error == nullptr ? 0 : error->http_status, 404) << path;
    EXPECT_EQ(error == nullptr ? "" : error->code, "not_found") << path;
    return error == nullptr ? "" : error->message;
  };
  EXPECT_EQ(message("POST", "/v1/embeddings"), "no such path: /v1/embeddings; use something else");
  EXPECT_EQ(message("GET", "/embeddings"), "no such path: /embeddings; use something else");
  EXPECT_EQ(message("POST", "/v1/audio/speech"), "no such path: /v1/audio/speech; nothing is spoken here");
  for (const char* path : {"/v1/embeddings/x", "/v1/audio", "/v1/models/"}) {
    EXPECT_EQ(message("GET", path),
              std::string("no such path: ") + path + "; GET /openapi.json lists the paths of this server");
  }
}

TEST(UrlTableTest, TheFallbackAnswersPathsWithoutARoute) {
  UrlTable urls = MakeTable();
  urls.AddFallback({.method = "", .pattern = "other", .summary = "", .handle = nullptr});
  EXPECT_EQ(Found(urls, "GET", "/v1/models"), "/v1/models");
  EXPECT_EQ(Found(urls, "GET", "/nowhere"), "other");
  EXPECT_EQ(Found(urls, "DELETE", "/flush"), "other") << "for any method";
}

}  // namespace
}  // namespace numoe::net
