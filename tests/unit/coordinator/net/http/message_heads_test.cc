// Heads of requests that a server and whoever forwards to it could read differently are refused, with words.
#include "coordinator/net/http/message_heads.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::net {
namespace {

namespace http = boost::beast::http;
using ::testing::HasSubstr;
using HeadFields = std::vector<std::pair<http::field, std::string>>;

std::optional<ApiError> WrongWith(const HeadFields& fields, unsigned version = 11) {
  http::request_header<> head;
  head.version(version);
  for (const auto& [name, value] : fields) head.insert(name, value);
  return WrongHead(head);
}

TEST(MessageHeadsTest, UsualHeadsAreRight) {
  const auto host = std::pair(http::field::host, std::string("x"));
  EXPECT_FALSE(WrongWith({host}));
  EXPECT_FALSE(WrongWith({}, 10)) << "HTTP/1.0 knows no Host";
  EXPECT_FALSE(
      WrongWith({host, {http::field::transfer_encoding, "Chunked"}, {http::field::expect, "100-Continue"}}));
}

TEST(MessageHeadsTest, WhatIsWrongIsNamed) {
  const auto host = std::pair(http::field::host, std::string("x"));
  const auto coding = [](const char* name) {
    return std::pair(http::field::transfer_encoding, std::string(name));
  };
  const std::vector<std::pair<HeadFields, const char*>> cases = {
      {{}, "0 Host"},
      {{host, host}, "2 Host"},
      {{host, coding("identity"), coding("chunked")}, "2 Transfer-Encoding"},
      {{host, coding("gzip, chunked")}, "found gzip, chunked"},
      {{host, coding("identity")}, "found identity"},
      {{host, coding("")}, "expected chunked"}};
  for (const auto& [fields, word] : cases) {
    const auto error = WrongWith(fields);
    ASSERT_TRUE(error) << word;
    EXPECT_EQ(error->http_status, 400);
    EXPECT_THAT(error->message, HasSubstr(word));
  }
  EXPECT_TRUE(WrongWith({host, host}, 10));
  const auto expecting =
      WrongWith({host, {http::field::expect, "100-continue"}, {http::field::expect, "more"}});
  ASSERT_TRUE(expecting);
  EXPECT_EQ(expecting->http_status, 417);
  EXPECT_THAT(expecting->message, HasSubstr("found more"));
}

}  // namespace
}  // namespace numoe::net
