// Which handler gets what, and what is said where there is none.
#include "coordinator/http/router.h"

#include "gtest/gtest.h"

namespace numoe {
namespace {

Router MakeRouter() {
  Router router;
  for (const auto& [method, pattern] :
       std::initializer_list<std::pair<const char*, const char*>>{{"GET", "/v1/models"},
                                                                  {"GET", "/v1/models/{}"},
                                                                  {"POST", "/v1/responses"},
                                                                  {"GET", "/v1/responses/{}"},
                                                                  {"POST", "/v1/responses/{}/cancel"},
                                                                  {"GET", "/flush"},
                                                                  {"POST", "/flush"}}) {
    router.Add({.method = method, .pattern = pattern, .summary = "", .handle = nullptr});
  }
  return router;
}

std::string Found(const Router& router, const std::string& method, const std::string& path) {
  const auto found = router.Find(method, path);
  if (const auto* error = std::get_if<ApiError>(&found)) return std::to_string(error->http_status);
  const auto& match = std::get<RouteMatch>(found);
  std::string text = match.route->pattern;
  for (const std::string& capture : match.captures) text += " " + capture;
  return text;
}

TEST(RouterTest, PatternsMatchSegmentBySegment) {
  const Router router = MakeRouter();
  EXPECT_EQ(Found(router, "GET", "/v1/models"), "/v1/models");
  EXPECT_EQ(Found(router, "GET", "/v1/models/k2"), "/v1/models/{} k2");
  EXPECT_EQ(Found(router, "POST", "/v1/responses/resp_1/cancel"), "/v1/responses/{}/cancel resp_1");
  EXPECT_EQ(Found(router, "GET", "/v1/responses/resp_1"), "/v1/responses/{} resp_1");
  for (const char* path :
       {"", "/", "v1/models", "/v1/models/", "/v1/models/a/b", "/v1/modelsx", "//v1/models"})
    EXPECT_EQ(Found(router, "GET", path), "404") << path;
}

TEST(RouterTest, APathOfOtherMethodsSaysWhich) {
  const Router router = MakeRouter();
  EXPECT_EQ(Found(router, "GET", "/v1/responses"), "405");
  EXPECT_EQ(Found(router, "DELETE", "/flush"), "405");
  EXPECT_EQ(router.Allowed("/flush"), "GET, POST");
  EXPECT_EQ(router.Allowed("/v1/responses/x"), "GET");
  EXPECT_EQ(router.Allowed("/nowhere"), "");
}

TEST(Router, WhatIsSaidOfOthersTakesThePlaceOf404And405) {
  Router router;
  router.Add({.method = "GET", .pattern = "/here", .summary = "", .handle = nullptr});
  router.RefuseOthers({.http_status = 503, .message = "not yet"});
  EXPECT_TRUE(std::holds_alternative<RouteMatch>(router.Find("GET", "/here")));
  for (const char* method : {"GET", "POST"}) {
    const auto found = router.Find(method, method == std::string("GET") ? "/there" : "/here");
    ASSERT_TRUE(std::holds_alternative<ApiError>(found));
    EXPECT_EQ(std::get<ApiError>(found).http_status, 503);
  }
}

TEST(Router, TheFallbackHasWhatNoRouteHas) {
  Router router = MakeRouter();
  router.AddFallback({.method = "", .pattern = "other", .summary = "", .handle = nullptr});
  EXPECT_EQ(Found(router, "GET", "/v1/models"), "/v1/models");
  EXPECT_EQ(Found(router, "GET", "/nowhere"), "other");
  EXPECT_EQ(Found(router, "DELETE", "/flush"), "other") << "whatever its method";
}

}  // namespace
}  // namespace numoe
