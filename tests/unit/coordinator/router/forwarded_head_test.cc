// Forwarded heads: no field of one connection is passed on to the other.
#include "coordinator/router/forwarded_head.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::router {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(ForwardedHead, FieldsOfOneConnectionAreNotPassedOn) {
  const net::HttpRequest request{.headers = {{"host", "router"},
                                             {"connection", "keep-alive, X-Private"},
                                             {"x-private", "1"},
                                             {"keep-alive", "5"},
                                             {"te", "trailers"},
                                             {"transfer-encoding", "chunked"},
                                             {"content-length", "3"},
                                             {"upgrade", "h2c"},
                                             {"expect", "100-continue"},
                                             {"origin", "https://page.example"},
                                             {"x-request-id", "theirs"},
                                             {"content-type", "application/json"},
                                             {"authorization", "Bearer key"},
                                             {"traceparent", "00-a-b-01"}},
                                 .id = "mine"};
  EXPECT_THAT(
      ForwardedHeaders(request),
      UnorderedElementsAre(Pair("content-type", "application/json"), Pair("authorization", "Bearer key"),
                           Pair("traceparent", "00-a-b-01"), Pair("x-request-id", "mine")));
}

TEST(ForwardedHead, AnswersKeepTheirTypeAndFields) {
  const net::HttpReply reply = ForwardedReply(429, {{"content-type", "text/event-stream; charset=utf-8"},
                                                    {"transfer-encoding", "chunked"},
                                                    {"connection", "close"},
                                                    {"retry-after", "7"},
                                                    {"etag", "\"x\""},
                                                    {"x-request-id", "mine"}});
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.type, "text/event-stream; charset=utf-8");
  EXPECT_THAT(reply.headers, UnorderedElementsAre(Pair("retry-after", "7"), Pair("etag", "\"x\"")));
}

TEST(ForwardedHead, OnlyAnAnswerWithASmallLengthIsShort) {
  EXPECT_TRUE(IsShort({{"content-length", "0"}}, 10));
  EXPECT_TRUE(IsShort({{"content-length", "10"}}, 10));
  EXPECT_FALSE(IsShort({{"content-length", "11"}}, 10));
  EXPECT_FALSE(IsShort({{"transfer-encoding", "chunked"}}, 10));
  for (const char* odd : {"", "x", "-1", "1 ", "99999999999999999999999"})
    EXPECT_FALSE(IsShort({{"content-length", odd}}, 10)) << odd;
}

}  // namespace
}  // namespace numoe::router
