// Names of servers: which are valid, which mean this host, and which no name server resolves.
#include "coordinator/net/http/authority.h"

#include "gtest/gtest.h"

namespace numoe::net {
namespace {

TEST(AuthorityTest, HostAndPortAreSeparated) {
  const auto read = [](const char* text) {
    const auto authority = ReadAuthority(text);
    return authority ? authority->host + "|" + authority->port : "none";
  };
  EXPECT_EQ(read("Example.COM.:80"), "example.com|80");
  EXPECT_EQ(read("[2001:DB8::1]:8080"), "2001:db8::1|8080");
  EXPECT_EQ(read("a_b-c.d"), "a_b-c.d|");
  EXPECT_EQ(read("x:"), "x|");
  EXPECT_EQ(read(""), "|");
  for (const char* text : {"a b", "a:b", "a:65536", "a:1:2", "::1", "[::1", "[::1]x", "[1.2.3.4]", "a%2", "ä",
                           "[fe80::1%25eth0]", "user@a", "a/b"})
    EXPECT_EQ(read(text), "none") << text;
}

TEST(AuthorityTest, LoopbackHasNamesAndNumbers) {
  for (const char* host : {"localhost", "a.localhost", "127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(IsLoopbackName(host)) << host;
  for (const char* host : {"localhost.example", "128.0.0.1", "0.0.0.0", "::2", "127.0.0.1.example", ""})
    EXPECT_FALSE(IsLoopbackName(host)) << host;
  EXPECT_TRUE(IsAddress("10.0.0.1") && IsAddress("fe80::1"));
  EXPECT_FALSE(IsAddress("10.0.0") || IsAddress("a.b"));
}

}  // namespace
}  // namespace numoe::net
