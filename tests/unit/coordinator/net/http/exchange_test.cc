// Headers and queries of requests.
#include "coordinator/net/http/exchange.h"

#include "gtest/gtest.h"

namespace numoe::net {
namespace {

TEST(HttpRequestTest, TheFirstHeaderOfANameCounts) {
  const HttpRequest request{.query = {{"a", "1"}, {"b", ""}, {"a", "2"}},
                            .headers = {{"x-id", "7"}, {"x-id", "8"}}};
  EXPECT_EQ(request.Header("x-id"), "7");
  EXPECT_EQ(request.Query("a"), "1");
  EXPECT_EQ(request.Query("b"), "");
}

TEST(HttpRequestTest, AMissingHeaderIsEmpty) {
  const HttpRequest request{.query = {{"a", "1"}}, .headers = {{"x-id", "7"}}};
  EXPECT_EQ(request.Header("a"), "") << "a query field is not a header";
  EXPECT_EQ(request.Query("x-id"), "");
  EXPECT_EQ(request.Header("X-Id"), "") << "names are in lower case";
  EXPECT_EQ(HttpRequest().Header("x-id"), "");
}

}  // namespace
}  // namespace numoe::net
