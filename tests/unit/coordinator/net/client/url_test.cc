#include "coordinator/net/client/url.h"

#include <gtest/gtest.h>

namespace numoe::net {
namespace {

TEST(Url, ReadsWhatPeopleWrite) {
  struct Case {
    const char *text, *host, *port, *path, *whole;
    bool tls;
  };
  const Case cases[] = {
      {"http://localhost:8080", "localhost", "8080", "", "http://localhost:8080", false},
      {"localhost:8080", "localhost", "8080", "", "http://localhost:8080", false},
      {"http://host", "host", "80", "", "http://host", false},
      {"https://api.example.com/v1", "api.example.com", "443", "", "https://api.example.com", true},
      {"https://api.example.com:80/v1/", "api.example.com", "80", "", "https://api.example.com:80", true},
      {"http://[::1]:9000/llm/v1", "::1", "9000", "/llm", "http://[::1]:9000/llm", false},
      {"http://[::1]", "::1", "80", "", "http://[::1]", false},
      {"http://h/a/b//", "h", "80", "/a/b", "http://h/a/b", false},
      {"127.0.0.1", "127.0.0.1", "80", "", "http://127.0.0.1", false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const auto url = ParseUrl(c.text);
    ASSERT_TRUE(url.ok()) << url.status();
    EXPECT_EQ(url->host, c.host);
    EXPECT_EQ(url->port, c.port);
    EXPECT_EQ(url->path, c.path);
    EXPECT_EQ(url->tls, c.tls);
    EXPECT_EQ(url->ToString(), c.whole);
  }
}

TEST(Url, RefusesOtherTextsAndNamesThem) {
  for (const char* text :
       {"", "http://", "ftp://host", "http://host:0", "http://host:65536", "http://host:x", "http://:80",
        "http://user@host", "http://host/?q=1", "http://host/#x", "http://ho st", "http://[::1",
        "http://[::1]x", "http://host\r\nX: y", "http://host:80:80", "http://host:"}) {
    SCOPED_TRACE(text);
    const auto url = ParseUrl(text);
    ASSERT_FALSE(url.ok());
    EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(url.status().message().find("expected http://HOST"), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace numoe::net
