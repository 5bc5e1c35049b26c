// Forwarded requests and their answers: unchanged, tried again when that is safe, and answers that break off.
#include "coordinator/router/forward_task.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "tests/unit/coordinator/router/router_house.h"

namespace numoe::router {
namespace {

using ::testing::HasSubstr;

class ForwardTaskTest : public RouterHouse {};

TEST_F(ForwardTaskTest, RequestsAndAnswersAreNotChanged) {
  const auto backend = Backend([](const CannedRequest& request) {
    return JsonReply(418, request.method + " " + request.target + " " + request.Header("authorization") +
                              " " + request.Header("x-request-id") + " " + request.body);
  });
  Start({backend->url()}, 1);
  const auto reply = Ask("/any%20thing?q=a%26b", "body",
                         {{"Authorization", "Bearer k"}, {"X-Request-Id", "id-1"}, {"Connection", "close"}});
  EXPECT_EQ(reply.status, 418);
  EXPECT_EQ(reply.body, "POST /any%20thing?q=a%26b Bearer k id-1 body");
  EXPECT_EQ(Ask("/v1/chat/completions", kQuestion).body.substr(0, 5), "POST ");
  EXPECT_EQ(Ask("/v1/chat/completions").body.substr(0, 4), "GET ")
      << "the backend decides which methods are allowed";
}

TEST_F(ForwardTaskTest, StreamsAreNotChanged) {
  const auto backend = Backend([](const CannedRequest&) { return StreamReply({"one", "two"}, 5); });
  Start({backend->url()}, 1);
  tcp::socket socket = Send(Post(kQuestion));
  std::string reply;
  asio::read_until(socket, asio::dynamic_buffer(reply), "\r\n0\r\n\r\n");
  EXPECT_THAT(reply, HasSubstr("Content-Type: text/event-stream"));
  for (const char* event : {"data: one\n\n", "data: two\n\n", "data: [DONE]\n\n"})
    EXPECT_THAT(reply, HasSubstr(event));
  asio::write(socket, asio::buffer(Post(kQuestion)));  // the connection can be used again
  asio::read_until(socket, asio::dynamic_buffer(reply), "\r\n0\r\n\r\n");
}

TEST_F(ForwardTaskTest, AnAnswerWithoutBodyGetsNone) {
  const auto backend = Backend([](const CannedRequest& request) {
    if (request.target == "/page/same")
      return CannedReply{.pieces = {"HTTP/1.1 304 Same\r\nETag: \"x\"\r\n\r\n"}};
    return CannedReply{.pieces = {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + request.method + "--"}};
  });
  Start({backend->url()}, 1);
  const auto ask = [&](const std::string& head) {
    tcp::socket socket = Send(head + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    std::string reply;
    boost::system::error_code error;
    asio::read(socket, asio::dynamic_buffer(reply), error);
    return reply;
  };
  const std::string same = ask("GET /page/same"), head = ask("HEAD /other");
  EXPECT_THAT(same, HasSubstr("HTTP/1.1 304"));
  EXPECT_THAT(same, HasSubstr("etag: \"x\""));
  EXPECT_THAT(head, HasSubstr("Content-Length: 5"));
  for (const std::string& reply : {same, head})
    EXPECT_EQ(reply.substr(reply.size() - 4), "\r\n\r\n") << reply;
}

TEST_F(ForwardTaskTest, ABackendThatRefusesOrIsUnreachableIsSkipped) {
  std::string gone;
  {
    gone = Backend([](const CannedRequest&) { return CannedReply{}; })->url();
  }
  const auto full = Backend([](const CannedRequest&) { return JsonReply(429, "full"); });
  const auto good = Backend([](const CannedRequest&) { return JsonReply(200, "good"); });
  Start({gone, full->url(), good->url()}, 2);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ask("/generate", R"({"text": "x"})").body, "good");
  EXPECT_GT(Asked(*full, "/generate"), 0u);
  EXPECT_THAT(Ask("/metrics").body, HasSubstr("numoe_router_retries_total"));
}

TEST_F(ForwardTaskTest, ARefusalOfAllBackendsIsPassedOn) {
  const auto answer = [](const CannedRequest&) { return JsonReply(429, "full"); };
  const auto a = Backend(answer), b = Backend(answer);
  Start({a->url(), b->url()}, 2);
  const auto reply = Ask("/generate", R"({"text": "x"})");
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.body, "full");
  EXPECT_EQ(Asked(*a, "/generate") + Asked(*b, "/generate"), 2u);
}

TEST_F(ForwardTaskTest, ARequestThatChangesNothingIsRunAgainOnce) {
  const auto answer = [](const CannedRequest&) { return CannedReply{}; };  // reads the request and hangs up
  const auto a = Backend(answer), b = Backend(answer), c = Backend(answer);
  Start({a->url(), b->url(), c->url()}, 3);
  const auto asked = [&](const std::string& path) {
    return Asked(*a, path) + Asked(*b, path) + Asked(*c, path);
  };
  const auto reply = Ask("/generate", R"({"text": "x"})");
  EXPECT_EQ(reply.status, 502);
  EXPECT_EQ(json::parse(reply.body)["error"]["code"], "backend_lost");
  EXPECT_EQ(asked("/generate"), 2u) << "and not sent to every coordinator";
  EXPECT_EQ(Ask("/v1/responses", R"({"input": "x"})").status, 502);
  EXPECT_EQ(asked("/v1/responses"), 1u) << "the first one may have stored its answer";
  EXPECT_EQ(Ask("/v1/other", "{}").status, 502);
  EXPECT_EQ(asked("/v1/other"), 1u);
}

TEST_F(ForwardTaskTest, AnAnswerThatBreaksOffBeforeTheClientHasAnyIsRunAgain) {
  std::atomic<int> cut{0};
  const auto answer = [&](const CannedRequest&) {
    if (cut++ > 0) return JsonReply(200, "whole");
    return CannedReply{.pieces = {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"}};
  };
  const auto a = Backend(answer), b = Backend(answer);
  Start({a->url(), b->url()}, 2);
  const auto reply = Ask("/generate", R"({"text": "x"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "whole");
  cut = -10;
  EXPECT_EQ(Ask("/generate", R"({"text": "x"})").status, 502) << "an incomplete answer is not passed on";
}

TEST_F(ForwardTaskTest, AStreamThatBreaksOffEndsWithAnError) {
  const auto backend = Backend([](const CannedRequest&) {
    CannedReply reply = StreamReply({"one"});
    reply.pieces.back() = "6\r\ndata: \r\n";  // of an event whose rest is missing
    return reply;
  });
  Start({backend->url()}, 1);
  tcp::socket socket = Send(Post(kQuestion));
  std::string reply;
  boost::system::error_code error;
  asio::read_until(socket, asio::dynamic_buffer(reply), "\r\n0\r\n\r\n", error);
  EXPECT_FALSE(error) << "the stream must end in order: " << reply;
  EXPECT_THAT(reply, HasSubstr("data: one\n\n\r\n"));
  EXPECT_THAT(reply, HasSubstr("data: {\"error\":{\"message\":"));
  EXPECT_THAT(reply, HasSubstr("backend_lost"));
  EXPECT_THAT(reply, HasSubstr("data: [DONE]"));
  EXPECT_EQ(reply.find("data: \r\n"), std::string::npos) << "an incomplete event is not passed on";
  Await([&] { return backends_->balancer().StateOf(0).running == 0; });
}

TEST_F(ForwardTaskTest, ALongAnswerThatBreaksOffEndsIncomplete) {
  const auto backend = Backend([](const CannedRequest&) {
    return CannedReply{.pieces = {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"}};
  });
  Start({backend->url()}, 1);
  tcp::socket socket = Send(Post(kQuestion));
  std::string reply;
  boost::system::error_code error;
  asio::read(socket, asio::dynamic_buffer(reply), error);
  EXPECT_EQ(error, asio::error::eof);
  EXPECT_THAT(reply, HasSubstr("half"));
  EXPECT_EQ(reply.find("\r\n0\r\n"), std::string::npos) << "it looks complete";
}

TEST_F(ForwardTaskTest, AnInvalidStatusIsNotPassedOn) {
  const auto backend = Backend([](const CannedRequest& request) {
    return CannedReply{
        .pieces = {"HTTP/1.1 " + request.target.substr(1) + " X\r\nContent-Length: 2\r\n\r\nhi"}};
  });
  Start({backend->url()}, 1);
  for (const char* status : {"/000", "/999", "/600"}) EXPECT_EQ(Ask(status).status, 502) << status;
  EXPECT_EQ(Ask("/599").status, 599);
}

TEST_F(ForwardTaskTest, WhenTheClientDisconnectsTheBackendsWorkEnds) {
  const auto backend = Backend([](const CannedRequest&) {
    CannedReply reply = StreamReply({"one"});
    reply.pieces.pop_back();
    reply.hold = true;
    return reply;
  });
  Start({backend->url()}, 1);
  {
    tcp::socket socket = Send(Post(kQuestion));
    std::string reply;
    // The first part arrives while the answer continues: the router does not collect it first.
    asio::read_until(socket, asio::dynamic_buffer(reply), "data: one\n\n");
  }
  Await([&] { return backend->hung_up() > 0; });
  Await([&] { return backends_->balancer().StateOf(0).running == 0; });
}

TEST_F(ForwardTaskTest, ASlowClientGetsALongAnswerCompletely) {
  const std::string piece(1 << 20, '#');
  constexpr size_t kPieces = 64;  // far more than the sockets and the stream's queue can hold
  const auto backend = Backend([&](const CannedRequest&) {
    CannedReply reply{.pieces = {"HTTP/1.1 200 OK\r\n\r\n"}};
    reply.pieces.resize(kPieces + 1, piece);
    return reply;
  });
  Start({backend->url()}, 1);
  tcp::socket socket = Send(fmt::format(
      "POST /generate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"));
  Await([&] { return socket.available() >= size_t{32} << 10; });  // the answer arrives faster than it is read
  std::string reply;
  boost::system::error_code error;
  asio::read(socket, asio::dynamic_buffer(reply), error);
  EXPECT_EQ(static_cast<size_t>(std::count(reply.begin(), reply.end(), '#')), kPieces * piece.size());
  EXPECT_EQ(reply.substr(reply.size() - 5), "0\r\n\r\n");
}

TEST_F(ForwardTaskTest, TheLastRefusalIsPassedOnCompletely) {
  const auto only = Backend([](const CannedRequest&) {
    return JsonReply(503, R"({"error": {"message": "m", "code": "overloaded"}})");
  });
  Start({only->url()}, 1);
  for (int i = 0; i < 2; ++i) {
    const auto reply = Ask("/generate", "{}");
    EXPECT_EQ(reply.status, 503);
    EXPECT_THAT(reply.body, HasSubstr("overloaded")) << "and not the router's own error";
  }
}

}  // namespace
}  // namespace numoe::router
