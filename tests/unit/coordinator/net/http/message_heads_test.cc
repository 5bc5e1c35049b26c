// The headers of every answer, and how old and new clients are told where its body ends.
#include "coordinator/net/http/message_heads.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::net {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const PageOrigins kNoPages({.loopback = true});

TEST(MessageHeadsTest, EveryAnswerHasTimeIdAndLength) {
  const HttpRequest request{.method = "GET", .id = "id-1"};
  const std::string answer = WholeAnswer(request, {.body = "12345"}, kNoPages, {.keep_alive = true});
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, ContainsRegex("Date: [A-Z][a-z]+, [0-9]+ [A-Z][a-z]+ 20[0-9]+ [0-9:]+ GMT\r\n"));
  EXPECT_THAT(answer, HasSubstr("x-request-id: id-1"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 5"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n12345"));
  EXPECT_THAT(answer, Not(HasSubstr("Connection")));
  EXPECT_THAT(WholeAnswer(request, {.headers = {{"date", "then"}}}, kNoPages, {}), Not(HasSubstr("GMT")))
      << "a header of a forwarded answer is kept";
}

TEST(MessageHeadsTest, AValidRequestIdIsKept) {
  const auto id_of = [](const std::string& id) {
    RequestHead head;
    head.fields = {{"x-request-id", id}};
    return RequestOf(std::move(head)).id;
  };
  EXPECT_EQ(id_of("my-id:1/2"), "my-id:1/2");
  for (const std::string& other :
       {std::string(), std::string("two words"), std::string("\xff\xfe"), std::string("t\tab"),
        std::string("gr\xc3\xbc\xc3\x9f"), std::string(129, 'x')}) {
    EXPECT_NE(id_of(other), other);
    EXPECT_THAT(id_of(other), ::testing::MatchesRegex("[a-z0-9_-]+"));
  }
}

TEST(MessageHeadsTest, SomeAnswersHaveNoBody) {
  const HttpReply reply{.body = "12345"};
  const std::string head = WholeAnswer({.method = "HEAD"}, reply, kNoPages, {});
  EXPECT_THAT(head, HasSubstr("Content-Length: 5"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  const std::string none = WholeAnswer({.method = "GET"}, {.status = 204}, kNoPages, {});
  EXPECT_THAT(none, Not(HasSubstr("Content-Length")));
}

TEST(MessageHeadsTest, OldClientsGetNoChunksAndAKeepAliveHeader) {
  const HttpRequest request{.method = "GET"};
  const std::string stream = StreamHead(request, EventStream(), kNoPages, {.http10 = true});
  EXPECT_THAT(stream, Not(HasSubstr("Transfer-Encoding")));
  EXPECT_THAT(stream, HasSubstr("Connection: close"));
  EXPECT_THAT(StreamHead(request, EventStream(), kNoPages, {.keep_alive = true}),
              HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_THAT(WholeAnswer(request, {}, kNoPages, {.http10 = true, .keep_alive = true}),
              HasSubstr("Connection: keep-alive"));
}

TEST(MessageHeadsTest, OptionsListTheMethodsOfAPathAndOfTheServer) {
  const std::string star =
      WholeAnswer({.method = "OPTIONS", .path = "*"}, OptionsReply({.path = "*"}, ""), kNoPages, {});
  EXPECT_THAT(star, StartsWith("HTTP/1.1 204"));
  EXPECT_THAT(star, HasSubstr("Allow: DELETE, GET, HEAD, OPTIONS, POST"));
  const HttpRequest page{
      .headers = {{"origin", "http://localhost:1"}, {"access-control-request-headers", "x-a"}}};
  const std::string preflight = WholeAnswer(page, OptionsReply(page, "OPTIONS, POST"), kNoPages, {});
  EXPECT_THAT(preflight, HasSubstr("Allow: OPTIONS, POST"));
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Headers: x-a"));
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Origin: http://localhost:1"));
}

TEST(MessageHeadsTest, RequestsAreTakenFromTheirHeads) {
  RequestHead head;
  head.method = "GET";
  head.target = "/a%20b?c=d";
  head.fields = {{"x-request-id", "mine"}};
  const HttpRequest request = RequestOf(head);
  EXPECT_EQ(request.path, "/a b");
  EXPECT_EQ(request.Query("c"), "d");
  EXPECT_EQ(request.id, "mine");
  EXPECT_THAT(RequestOf({}).id, StartsWith("req-"));
}

}  // namespace
}  // namespace numoe::net
