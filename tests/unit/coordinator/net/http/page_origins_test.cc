// Which web pages may send requests, and what their browsers are told.
#include "coordinator/net/http/page_origins.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::net {
namespace {

using ::testing::HasSubstr;

using PageFields = std::vector<std::pair<std::string, std::string>>;

HttpRequest PageAsks(const std::string& authority, const PageFields& fields = {}) {
  return {.authority = authority, .headers = fields};
}
int RefusedWith(const PageOrigins& pages, const HttpRequest& request) {
  const auto refusal = pages.Refusal(request);
  return refusal ? refusal->http_status : 0;
}

TEST(PageOriginsTest, ALocalServerAcceptsItsOwnPages) {
  const PageOrigins pages({.loopback = true});
  const auto status = [&](const std::string& origin) {
    return RefusedWith(pages, PageAsks("127.0.0.1:8080", {{"origin", origin}}));
  };
  for (const char* own : {"http://127.0.0.1:8080", "http://localhost:3000", "https://LOCALHOST",
                          "http://[::1]:5173", "app://obsidian.md", "vscode-webview://x"})
    EXPECT_EQ(status(own), 0) << own;
  for (const char* other : {"https://evil.example", "http://localhost.evil.example", "null", "http://", "x",
                            "http://127.0.0.1@evil.example", "http://10.0.0.1:8080"})
    EXPECT_EQ(status(other), 403) << other;
  EXPECT_EQ(RefusedWith(pages, PageAsks("localhost:8080")), 0) << "programs send no Origin";
  EXPECT_THAT(pages.Refusal(PageAsks("localhost", {{"origin", "https://a.b"}}))->message,
              HasSubstr("--allowed-origins"));
}

TEST(PageOriginsTest, ALocalServerMustBeAddressedByItsName) {
  const PageOrigins pages({.loopback = true});
  for (const char* name : {"localhost", "localhost:1", "127.0.0.1:8080", "[::1]:8080", "192.168.1.5", "",
                           "workstation", "api.localhost"})
    EXPECT_EQ(RefusedWith(pages, PageAsks(name)), 0) << name;
  for (const char* name : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "evil.example."})
    EXPECT_EQ(RefusedWith(pages, PageAsks(name)), 421) << name;
  EXPECT_EQ(RefusedWith(pages, PageAsks("evil.example:80", {{"origin", "http://evil.example"}})), 421)
      << "although the page comes from this server";
  EXPECT_EQ(RefusedWith(PageOrigins({.listed = {"https://llm.example"}, .loopback = true}),
                        PageAsks("llm.example")),
            0);
  EXPECT_EQ(RefusedWith(PageOrigins({.listed = {"*"}, .loopback = true}), PageAsks("evil.example")), 0);
  EXPECT_EQ(RefusedWith(PageOrigins({}), PageAsks("llm.example")), 0);
  EXPECT_EQ(RefusedWith(PageOrigins({.keys = true, .loopback = true}), PageAsks("llm.example")), 0);
  const PageOrigins certified({.loopback = true, .certified = true});
  EXPECT_EQ(RefusedWith(certified, PageAsks("llm.example")), 0)
      << "browsers check the name in its certificate";
}

TEST(PageOriginsTest, ThePagesOwnServerIsRecognisedBehindATlsProxy) {
  const PageOrigins pages({});
  const auto status = [&](const char* authority, const char* origin) {
    return RefusedWith(pages, PageAsks(authority, {{"origin", origin}}));
  };
  EXPECT_EQ(status("llm.example", "https://llm.example"), 0);
  EXPECT_EQ(status("llm.example:443", "https://llm.example"), 0);
  EXPECT_EQ(status("10.0.0.1:8080", "http://10.0.0.1:8080"), 0);
  EXPECT_EQ(status("llm.example:8080", "https://llm.example"), 403);
  EXPECT_EQ(status("", "https://llm.example"), 403);
  EXPECT_EQ(RefusedWith(pages, PageAsks("backend", {{"origin", "https://llm.example"},
                                                    {"sec-fetch-site", "same-origin"}})),
            0)
      << "the browser says that it is the same origin";
}

TEST(PageOriginsTest, WithoutAnOriginTheSiteHeaderCounts) {
  const PageOrigins pages({.loopback = true});
  const auto status = [&](const char* site) {
    return RefusedWith(pages, PageAsks("localhost", {{"sec-fetch-site", site}}));
  };
  EXPECT_EQ(status("cross-site"), 403) << "as for an image on a page of another site";
  for (const char* site : {"same-origin", "same-site", "none"}) EXPECT_EQ(status(site), 0) << site;
  EXPECT_EQ(RefusedWith(PageOrigins({.keys = true, .loopback = true}),
                        PageAsks("x", {{"sec-fetch-site", "cross-site"}})),
            0);
}

TEST(PageOriginsTest, AListLimitsOriginsAndKeysAllowAll) {
  const HttpRequest good = PageAsks("x", {{"origin", "https://Good.example"}});
  const HttpRequest other = PageAsks("x", {{"origin", "https://other.example"}});
  const HttpRequest here = PageAsks("x", {{"origin", "http://localhost:3000"}});
  const PageOrigins listed({.listed = {"https://good.example"}, .keys = true}), keys({.keys = true});
  EXPECT_EQ(RefusedWith(listed, good), 0);
  EXPECT_EQ(listed.Allowed(good), "https://Good.example");
  EXPECT_EQ(RefusedWith(listed, other), 403);
  EXPECT_EQ(RefusedWith(listed, here), 403);
  EXPECT_EQ(listed.Allowed(other), "");
  EXPECT_EQ(RefusedWith(keys, other), 0) << "a page can do nothing without a key";
  EXPECT_EQ(keys.Allowed(other), "*");
  EXPECT_EQ(keys.Allowed(PageAsks("x")), "") << "the request does not come from a page";
}

}  // namespace
}  // namespace numoe::net
