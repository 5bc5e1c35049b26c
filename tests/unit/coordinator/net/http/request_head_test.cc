// Heads of requests: valid ones are read without changes, and ambiguous ones are refused.
#include "coordinator/net/http/request_head.h"

#include "common/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using ReadResult = std::optional<std::variant<RequestHead, ApiError>>;

ReadResult ReadWhole(const std::string& bytes) {
  size_t used = 0;
  return HeadReader().Read(bytes, used);
}
RequestHead HeadIn(const std::string& bytes) {
  const ReadResult read = ReadWhole(bytes);
  const auto* const head = read ? std::get_if<RequestHead>(&*read) : nullptr;
  EXPECT_NE(head, nullptr) << bytes;
  return head == nullptr ? RequestHead{} : *head;
}
// The status with which a head is refused; 0: it is accepted; -1: it is incomplete.
int StatusOf(const std::string& bytes) {
  const ReadResult read = ReadWhole(bytes);
  if (!read) return -1;
  const auto* const error = std::get_if<ApiError>(&*read);
  EXPECT_TRUE(error == nullptr || !error->message.empty());
  return error == nullptr ? 0 : error->http_status;
}
std::string WithFields(const std::string& fields, const std::string& line = "POST /p HTTP/1.1") {
  return line + "\r\nHost: x\r\n" + fields + "\r\n";
}

TEST(RequestHeadTest, AUsualHeadIsRead) {
  const RequestHead head = HeadIn("POST /a%20b?c=d HTTP/1.1\r\nHost: Example:80\r\nX-One:  two \t\r\n\r\n");
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.target, "/a%20b?c=d");
  EXPECT_EQ(head.authority, "Example:80");
  EXPECT_THAT(head.fields, ElementsAre(Pair("host", "Example:80"), Pair("x-one", "two")));
  EXPECT_TRUE(head.keep_alive);
  EXPECT_FALSE(head.http10 || head.awaits_continue || head.body.any());
}

TEST(RequestHeadTest, HeadsComeInPiecesOneAfterTheOther) {
  const std::string first = WithFields("A: b\r\n"), second = WithFields("C: d\r\n"),
                    both = first + second + "GE";
  for (size_t cut = 0; cut < first.size(); ++cut) {
    HeadReader reader;
    size_t used = 0;
    ASSERT_FALSE(reader.Read(both.substr(0, cut), used)) << cut;
    ASSERT_EQ(used, 0u);
    ASSERT_TRUE(reader.Read(both, used));
    ASSERT_EQ(used, first.size()) << cut;
    const auto next = reader.Read(both.substr(used), used);
    ASSERT_TRUE(next);
    EXPECT_EQ(std::get<RequestHead>(*next).fields.back().first, "c");
    EXPECT_EQ(used, first.size() + second.size());
    EXPECT_FALSE(reader.Read("GE", used));
  }
  size_t used = 0;
  EXPECT_TRUE(HeadReader().Read("\r\n\r\n" + first, used)) << "empty lines before a request";
  EXPECT_EQ(used, first.size() + 4);
}

TEST(RequestHeadTest, TargetsHaveTheirForms) {
  const auto read = [](const std::string& line) { return HeadIn(WithFields("", line)); };
  EXPECT_EQ(read("GET http://Other:81/v1/models?q HTTP/1.1").target, "/v1/models?q");
  EXPECT_EQ(read("GET http://Other:81/v1/models?q HTTP/1.1").authority, "Other:81")
      << "not that of the Host header";
  EXPECT_EQ(read("GET HTTPS://other HTTP/1.1").target, "/");
  EXPECT_EQ(read("GET http://other?q=1 HTTP/1.1").target, "/?q=1");
  EXPECT_EQ(read("GET http://[::1]:8/x HTTP/1.1").authority, "[::1]:8");
  EXPECT_EQ(read("OPTIONS * HTTP/1.1").target, "*");
  for (const char* target : {"*", "x:80", "x", "ftp://x/", "http://", "http:///p", "http://u:p@x/", "//x y",
                             "/a b", "/a#b", "/a\tb", ""})
    EXPECT_EQ(StatusOf(WithFields("", std::string("GET ") + target + " HTTP/1.1")), 400) << target;
  EXPECT_EQ(StatusOf(WithFields("", "CONNECT x:80 HTTP/1.1")), 501);
}

TEST(RequestHeadTest, OtherProtocolsAreRefused) {
  EXPECT_EQ(StatusOf("PRI * HTTP/2.0\r\n"), 505) << "HTTP/2's first line";
  for (const char* version : {"HTTP/2.0", "HTTP/3.0", "HTTP/0.9"})
    EXPECT_EQ(StatusOf(WithFields("", std::string("GET / ") + version)), 505) << version;
  for (const char* line :
       {"GET /", "GET / HTTP", "GET / HTTP/1", "GET / HTTP/1.10", "GET / http/1.1", "GET / HTTPS/1.1",
        "GET / HTTP/1.1 ", "GET  / HTTP/1.1", " GET / HTTP/1.1", "G(T / HTTP/1.1", "GET / HTTP/x.1"})
    EXPECT_EQ(StatusOf(WithFields("", line)), 400) << line;
  EXPECT_EQ(StatusOf("\x16\x03\x01"), 400) << "TLS is refused at once";
  EXPECT_EQ(StatusOf("GET /\r\n"), 400) << "HTTP/0.9 is refused at once";
  EXPECT_FALSE(HeadIn(WithFields("", "GET / HTTP/1.2")).http10) << "later minor versions count as HTTP/1.1";
}

TEST(RequestHeadTest, LinesMustEndInCrLf) {
  for (const std::string& head :
       {std::string("GET / HTTP/1.1\nHost: x\n\n"), std::string("GET / HTTP/1.1\r\nHost: x\n\r\n"),
        WithFields("A: b\rC: d\r\n"), WithFields("A: b\nC: d\r\n"), WithFields("A: b\r\r\n"),
        WithFields(std::string("A: b\0c\r\n", 8)), WithFields("A: b\x01\r\n"), WithFields("A: b\x7f\r\n"),
        WithFields("A: b\r\n c\r\n"), WithFields("A: b\r\n\tc\r\n"), WithFields("A : b\r\n"),
        WithFields(": b\r\n"), WithFields("A\r\n"), WithFields("A b: c\r\n"), WithFields("A\t: c\r\n"),
        std::string("GET / HTTP/1.1\r\n Host: x\r\n\r\n"), std::string("\n")})
    EXPECT_EQ(StatusOf(head), 400) << head;
  EXPECT_EQ(StatusOf(WithFields("A: \xc3\xa4\tb\r\nB:\r\n")), 0)
      << "values may have other bytes and tabs, or be empty";
}

TEST(RequestHeadTest, ThereMustBeOneValidHost) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\n\r\n"), 0) << "older clients send no Host";
  EXPECT_EQ(StatusOf(WithFields("Host: x\r\n")), 400);
  EXPECT_EQ(StatusOf(WithFields("host: y\r\n", "GET http://x/ HTTP/1.1")), 400);
  EXPECT_EQ(StatusOf(WithFields("Host: x\r\n", "GET / HTTP/1.0")), 400);
  for (const char* host :
       {"a b", "a, b", "a/b", "u@a", "a:b", "a:99999", "[::1", "[x]", "http://a", "a\"", "%zz"})
    EXPECT_EQ(StatusOf(std::string("GET / HTTP/1.1\r\nHost: ") + host + "\r\n\r\n"), 400) << host;
}

TEST(RequestHeadTest, TheEndOfTheBodyMustBeUnambiguous) {
  EXPECT_TRUE(HeadIn(WithFields("Transfer-Encoding: Chunked\r\n")).body.chunked);
  EXPECT_EQ(HeadIn(WithFields("Content-Length: 0012\r\n")).body.bytes, 12u);
  const std::vector<std::pair<const char*, int>> wrong = {
      {"Transfer-Encoding: xchunked\r\n", 400},
      {"Transfer-Encoding: chunked, identity\r\n", 400},
      {"Transfer-Encoding: gzip\r\n", 400},
      {"Transfer-Encoding: \"chunked\"\r\n", 400},
      {"Transfer-Encoding: chunked, chunked\r\n", 400},
      {"Transfer-Encoding: chunked,\r\n", 400},
      {"Transfer-Encoding: , chunked\r\n", 400},
      {"Transfer-Encoding: chunked;a=b\r\n", 400},
      {"Transfer-Encoding: \r\n", 400},
      {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400},
      {"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", 400},
      {"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", 400},
      {"Content-Length: 3\r\ntransfer-encoding: chunked\r\n", 400},
      {"Transfer-Encoding: gzip, chunked\r\n", 501},
      {"Transfer-Encoding: identity, chunked\r\n", 501},
      {"Content-Length: 3\r\nContent-Length: 3\r\n", 400},
      {"Content-Length: 3, 3\r\n", 400},
      {"Content-Length: +3\r\n", 400},
      {"Content-Length: -1\r\n", 400},
      {"Content-Length: 0x3\r\n", 400},
      {"Content-Length: 3 3\r\n", 400},
      {"Content-Length: \r\n", 400},
      {"Content-Length: 18446744073709551616\r\n", 400}};
  for (const auto& [fields, status] : wrong) EXPECT_EQ(StatusOf(WithFields(fields)), status) << fields;
  EXPECT_EQ(StatusOf(WithFields("Transfer-Encoding: chunked\r\n", "POST / HTTP/1.0")), 400);
}

TEST(RequestHeadTest, ConnectionsAreKeptAsTheirProtocolSays) {
  const auto stays = [](const char* version, const std::string& fields) {
    return HeadIn(WithFields(fields, std::string("GET / ") + version)).keep_alive;
  };
  EXPECT_TRUE(stays("HTTP/1.1", "") && stays("HTTP/1.0", "Connection: x, Keep-Alive\r\n"));
  EXPECT_FALSE(stays("HTTP/1.0", "") || stays("HTTP/1.1", "Connection: x\r\nConnection: Close\r\n"));
  EXPECT_FALSE(stays("HTTP/1.0", "Connection: keep-alive, close\r\n"));
}

TEST(RequestHeadTest, OnlyOneExpectationIsSupported) {
  EXPECT_TRUE(HeadIn(WithFields("Expect: 100-Continue\r\n")).awaits_continue);
  EXPECT_EQ(StatusOf(WithFields("Expect: 100-continue\r\nExpect: more\r\n")), 417);
  EXPECT_FALSE(HeadIn(WithFields("Expect: 100-continue\r\n", "GET / HTTP/1.0")).awaits_continue);
}

TEST(RequestHeadTest, HeadsHaveASizeLimit) {
  const std::string much(limits::kHttpHeaderBytesMax, 'a');
  EXPECT_EQ(StatusOf("GET /" + much), 414);
  EXPECT_EQ(StatusOf(WithFields("A: " + much)), 431) << "before the end of the head has arrived";
  EXPECT_EQ(StatusOf(WithFields("A: " + much + "\r\n")), 431);
}

TEST(RequestHeadTest, ErrorsShowWhatWasFound) {
  const auto read = ReadWhole(WithFields("Content-Length: three\r\n"));
  ASSERT_TRUE(read);
  EXPECT_THAT(std::get<ApiError>(*read).message, HasSubstr("header is 'three'; expected a number"));
  EXPECT_LT(Shown(std::string(1000, 'x')).size(), 100u);
}

}  // namespace
}  // namespace numoe::net
