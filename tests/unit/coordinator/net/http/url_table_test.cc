// Which handler gets what, and what is said where there is none.
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

TEST(UrlTableTest, APathOfOtherMethodsSaysWhich) {
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
  EXPECT_EQ(Found(urls, "GET", "/v1/flush"), "404") << "and not the other way round";
  EXPECT_EQ(Found(urls, "GET", "/v1/v1/models"), "404");
  urls.Add({.method = "GET", .pattern = "/models", .summary = "", .handle = nullptr});
  EXPECT_EQ(Found(urls, "GET", "/models"), "/models") << "a path's own route comes first";
}

TEST(UrlTableTest, WhatIsSaidOfOthersTakesThePlaceOf404And405) {
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

TEST(UrlTableTest, TheFallbackHasWhatNoRouteHas) {
  UrlTable urls = MakeTable();
  urls.AddFallback({.method = "", .pattern = "other", .summary = "", .handle = nullptr});
  EXPECT_EQ(Found(urls, "GET", "/v1/models"), "/v1/models");
  EXPECT_EQ(Found(urls, "GET", "/nowhere"), "other");
  EXPECT_EQ(Found(urls, "DELETE", "/flush"), "other") << "whatever its method";
}

}  // namespace
}  // namespace numoe::net
