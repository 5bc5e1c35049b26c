#include "coordinator/net/client/http_client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "coordinator/net/client/client_limits.h"
#include "tests/support/canned_server.h"

namespace numoe::net {
namespace {

std::unique_ptr<HttpClient> ClientOf(const std::string& url, std::string_view api_key = "",
                                     std::vector<HttpClient::Header> headers = {}) {
  auto client = HttpClient::Create(*ParseUrl(url), api_key, std::move(headers));
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

TEST(HttpClient, FetchSendsItsHeaders) {
  CannedServer server(
      [](const CannedRequest& request) { return JsonReply(200, request.method + " " + request.body); });
  const auto client = ClientOf(server.url() + "/prefix/v1", "secret", {{"X-Tenant", "a"}});
  EXPECT_EQ(*client->FetchOk({.path = "/v1/models"}), "GET ");
  EXPECT_EQ(*client->FetchOk({.path = "/x", .body = "{}"}), "POST {}");
  EXPECT_EQ(*client->FetchOk({.path = "/x", .post = true}), "POST ");
  const auto seen = server.requests();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].target, "/prefix/v1/models");
  EXPECT_EQ(seen[0].Header("authorization"), "Bearer secret");
  EXPECT_EQ(seen[1].Header("x-tenant"), "a");
  EXPECT_EQ(seen[1].Header("content-type"), "application/json");
  EXPECT_EQ("http://" + seen[0].Header("host"), server.url());
}

TEST(HttpClient, ErrorsContainTheServersMessage) {
  CannedServer server(
      [](const CannedRequest&) { return JsonReply(429, R"({"error":{"message":"the queue is full"}})"); });
  const auto client = ClientOf(server.url());
  const auto body = client->FetchOk({.path = "/v1/models"});
  EXPECT_EQ(std::string(body.status().message()), server.url() + "/v1/models: 429: the queue is full");
  EXPECT_EQ(client->Fetch({.path = "/"})->status, 429);
}

TEST(HttpClient, AMissingServerIsAClearError) {
  std::string url;
  {
    CannedServer gone([](const CannedRequest&) { return CannedReply{}; });
    url = gone.url();
  }
  const auto reply = ClientOf(url)->Fetch({.path = "/"});
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(reply.status().message()), "cannot connect to " + url + ": Connection refused");
  EXPECT_EQ(HttpClient::Create(*ParseUrl("http://host.invalid"), "").status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(HttpClient, HeadersThatCouldSmuggleRequestsAreRefused) {
  for (const HttpClient::Header& header :
       {HttpClient::Header{"X: y", "z"}, {"", "z"}, {"X", "a\r\nEvil: b"}, {"X y", "z"}}) {
    EXPECT_EQ(HttpClient::Create(*ParseUrl("127.0.0.1"), "", {header}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(HttpClient::Create(*ParseUrl("127.0.0.1"), "a\nb").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HttpClient, BrokenRepliesAreErrors) {
  for (const char* raw : {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "not http\r\n\r\n", "",
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    SCOPED_TRACE(raw);
    CannedServer server([raw](const CannedRequest&) { return CannedReply{.pieces = {raw}}; });
    const auto reply = ClientOf(server.url())->Fetch({.path = "/"});
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable) << reply.status();
    EXPECT_NE(reply.status().message().find(server.url()), absl::string_view::npos);
  }
}

// RFC 9110, 15.2: a client continues to read after answers that are not the final one.
TEST(HttpClient, InterimAnswersComeBeforeTheFinalOne) {
  const std::string hints = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
                    go_on = "HTTP/1.1 100 Continue\r\n\r\n";
  const std::string end = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
  for (const std::vector<std::string>& pieces :
       {std::vector<std::string>{go_on, hints, end}, {go_on + hints + end}}) {
    CannedServer server([&](const CannedRequest&) { return CannedReply{.pieces = pieces}; });
    const auto reply = ClientOf(server.url())->Fetch({.path = "/"});
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(reply->body, "abc");
  }
}

TEST(HttpClient, OnlyInterimAnswersAreAnError) {
  CannedServer server([](const CannedRequest&) {
    CannedReply reply;
    reply.pieces.resize(limits::kHttpInterimAnswersMax + 1, "HTTP/1.1 102 Processing\r\n\r\n");
    return reply;
  });
  const auto reply = ClientOf(server.url())->Fetch({.path = "/"});
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(reply.status().message().find("sent 17 interim answers (1xx) and no final one"),
            absl::string_view::npos)
      << reply.status();
}

TEST(HttpClient, AnEndlessReplyIsAnError) {
  CannedServer server([](const CannedRequest&) {
    CannedReply reply{.pieces = {"HTTP/1.1 200 OK\r\n\r\n"}};
    reply.pieces.resize(limits::kClientReplyBytesMax / (4 << 20) + 3, std::string(4 << 20, 'x'));
    return reply;
  });
  EXPECT_EQ(ClientOf(server.url())->Fetch({.path = "/"}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// The events of an exchange, in order.
struct Told {
  std::string body;
  int status = 0, ends = 0;
  absl::Status end;
  HttpEvents Events() {
    return {.on_head = [this](int s) { status = s; },
            .on_body =
                [this](std::string_view bytes) {
                  body += bytes;
                  return on_body ? on_body() : absl::OkStatus();
                },
            .on_end =
                [this](const absl::Status& s) {
                  end = s;
                  ++ends;
                }};
  }
  std::function<absl::Status()> on_body;
};

TEST(HttpClient, BodiesArriveAsTheyAreWritten) {
  CannedServer server([](const CannedRequest&) { return StreamReply({"one", "two"}, 20); });
  const auto client = ClientOf(server.url());
  boost::asio::io_context context;
  std::vector<size_t> sizes;
  Told told;
  told.on_body = [&] {
    sizes.push_back(told.body.size());
    return absl::OkStatus();
  };
  client->Send(context, {.path = "/"}, told.Events());
  context.run();
  EXPECT_EQ(told.body, "data: one\n\ndata: two\n\ndata: [DONE]\n\n");
  EXPECT_GE(sizes.size(), 2u) << "the body is not collected until its end";
  EXPECT_EQ(told.ends, 1);
  EXPECT_TRUE(told.end.ok()) << told.end;
}

TEST(HttpClient, CancelClosesTheConnection) {
  CannedServer server([](const CannedRequest&) {
    CannedReply reply = StreamReply({"one"});
    reply.pieces.pop_back();
    reply.hold = true;
    return reply;
  });
  const auto client = ClientOf(server.url());
  boost::asio::io_context context;
  Told told;
  std::shared_ptr<HttpExchange> exchange;
  told.on_body = [&] {
    exchange->Cancel();
    return absl::OkStatus();
  };
  exchange = client->Send(context, {.path = "/"}, told.Events());
  context.run();
  EXPECT_EQ(told.end.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(told.ends, 1);
  exchange->Cancel();  // a second call has no effect
  while (server.hung_up() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(HttpClient, ACallHasItsOwnMethodAndHeadersAndSeesThoseOfTheReply) {
  CannedServer server([](const CannedRequest& request) {
    return JsonReply(200, request.method + " " + request.target + " " + request.Header("x-own") +
                              request.Header("content-type"));
  });
  const auto client = HttpClient::CreateAt(*ParseUrl(server.url()), ClientOf(server.url())->endpoints());
  ASSERT_TRUE(client.ok()) << client.status();
  boost::asio::io_context context;
  Told told;
  bool connected = false;
  HttpHeaders headers;
  HttpEvents events = told.Events();
  events.on_connected = [&] { connected = true; };
  events.on_headers = [&](const HttpHeaders& seen) {
    EXPECT_TRUE(connected && told.status == 200);
    headers = seen;
  };
  (*client)->Send(context.get_executor(),
                  {.path = "/a?b", .body = "x", .method = "DELETE", .headers = {{"X-Own", "1"}}},
                  std::move(events));
  context.run();
  EXPECT_EQ(told.body, "DELETE /a?b 1");
  EXPECT_NE(std::find(headers.begin(), headers.end(), HttpClient::Header("content-type", "application/json")),
            headers.end());
}

TEST(HttpClient, OnConnectedIsNotCalledWithoutAServer) {
  std::string url;
  {
    CannedServer gone([](const CannedRequest&) { return CannedReply{}; });
    url = gone.url();
  }
  boost::asio::io_context context;
  Told told;
  HttpEvents events = told.Events();
  events.on_connected = [] { ADD_FAILURE(); };
  const auto client = ClientOf(url);
  client->Send(context, {.path = "/"}, std::move(events));
  context.run();
  EXPECT_EQ(told.end.code(), absl::StatusCode::kUnavailable);
}

TEST(HttpClient, APausedReplyWaitsAndMayBeCancelled) {
  CannedServer server([](const CannedRequest&) { return StreamReply({"one", "two"}); });
  const auto client = ClientOf(server.url());
  for (const bool cancel : {false, true}) {
    boost::asio::io_context context;
    Told told;
    std::shared_ptr<HttpExchange> exchange;
    told.on_body = [&] {
      exchange->Pause();
      return absl::OkStatus();
    };
    exchange = client->Send(context, {.path = "/"}, told.Events());
    size_t pauses = 0;
    while (told.ends == 0) {
      context.run();  // returns because the exchange is paused and nothing else is to do
      context.restart();
      if (told.ends > 0) break;
      ++pauses;
      cancel ? exchange->Cancel() : exchange->Resume();
    }
    EXPECT_GE(pauses, 1u);
    EXPECT_EQ(told.ends, 1);
    EXPECT_EQ(told.end.ok(), !cancel) << told.end;
    EXPECT_EQ(told.body.find("[DONE]") == std::string::npos, cancel) << told.body;
  }
}

TEST(HttpClient, AnErrorOfOnBodyEndsTheExchange) {
  CannedServer server([](const CannedRequest&) { return StreamReply({"one", "two", "three"}, 5); });
  const auto client = ClientOf(server.url());
  boost::asio::io_context context;
  Told told;
  told.on_body = [] { return absl::DataLossError("enough"); };
  client->Send(context, {.path = "/"}, told.Events());
  context.run();
  EXPECT_EQ(told.end, absl::DataLossError("enough"));
  EXPECT_EQ(told.ends, 1);
}

TEST(HttpClient, TlsWithATrustedCertificate) {
  CannedServer server([](const CannedRequest&) { return JsonReply(200, "over TLS"); }, "localhost");
  const auto distrusted = ClientOf(server.url())->Fetch({.path = "/"});
  EXPECT_EQ(distrusted.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(distrusted.status().message().find("certificate"), absl::string_view::npos)
      << distrusted.status();
  setenv("SSL_CERT_FILE", server.certificate_file().c_str(), 1);
  const auto body = ClientOf(server.url())->FetchOk({.path = "/"});
  unsetenv("SSL_CERT_FILE");
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(*body, "over TLS");
}

TEST(HttpClient, TlsForAnotherNameIsRefused) {
  CannedServer server([](const CannedRequest&) { return JsonReply(200, "x"); }, "elsewhere.example");
  setenv("SSL_CERT_FILE", server.certificate_file().c_str(), 1);
  const auto reply = ClientOf(server.url())->Fetch({.path = "/"});
  unsetenv("SSL_CERT_FILE");
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(reply.status().message().find("TLS"), absl::string_view::npos) << reply.status();
}

}  // namespace
}  // namespace numoe::net
