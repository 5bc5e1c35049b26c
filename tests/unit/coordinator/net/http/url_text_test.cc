// Request targets as clients and scanners send them.
#include "coordinator/net/http/url_text.h"

#include "gtest/gtest.h"

namespace numoe::net {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

TEST(UrlTextTest, PathsAreDecodedWithoutTheirQuery) {
  EXPECT_EQ(PathOf("/v1/models"), "/v1/models");
  EXPECT_EQ(PathOf("/a%20b?x=%20"), "/a b");
  EXPECT_EQ(PathOf("/a+b"), "/a+b") << "a plus means a space only in queries";
  EXPECT_EQ(PathOf("/%e4%b8%96"), "/世");
  EXPECT_EQ(PathOf(""), "");
}

TEST(UrlTextTest, InvalidEscapesAreKept) {
  for (const char* text : {"%", "%2", "%zz", "%2z", "a%", "%%"}) EXPECT_EQ(PercentDecode(text, false), text);
  EXPECT_EQ(PercentDecode("%41%4a", false), "AJ");
  EXPECT_EQ(PercentDecode("%-1", false), "%-1");
}

TEST(UrlTextTest, QueriesAreFields) {
  EXPECT_EQ(QueryOf("/x"), Fields());
  EXPECT_EQ(QueryOf("/x?"), Fields());
  EXPECT_EQ(QueryOf("/x?a=1&b=two+words&c&d=%3D&&e="),
            (Fields{{"a", "1"}, {"b", "two words"}, {"c", ""}, {"d", "="}, {"e", ""}}));
}

}  // namespace
}  // namespace numoe::net
