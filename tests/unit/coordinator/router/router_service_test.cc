// The router's routes over real sockets, with backends that answer what the test says.
#include "coordinator/router/router_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <chrono>
#include <future>
#include <thread>

#include "coordinator/client/http_client.h"
#include "coordinator/http/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/canned_server.h"

namespace numoe {
namespace {

namespace asio = boost::asio;
using nlohmann::json;
using ::testing::HasSubstr;
using tcp = asio::ip::tcp;

constexpr char kReady[] = R"({"status": "ready", "detail": ""})";
constexpr char kQuestion[] = R"({"messages": [{"role": "user", "content": "a question of some length"}]})";

template <typename Condition>
void Await(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// A backend that is ready, and otherwise answers by `answer`.
std::unique_ptr<CannedServer> Backend(CannedServer::Answer answer, const char* health = kReady) {
  return std::make_unique<CannedServer>([answer = std::move(answer), health](const CannedRequest& request) {
    if (request.target == "/health") return JsonReply(health == kReady ? 200 : 503, health);
    return answer(request);
  });
}

size_t Asked(const CannedServer& server, const std::string& target) {
  size_t count = 0;
  for (const CannedRequest& request : server.requests()) count += request.target == target ? 1 : 0;
  return count;
}

class RouterServiceTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
    if (service_ != nullptr) service_->Stop();
    server_.reset();
  }

  void Start(const std::vector<std::string>& urls, size_t ready, AccessOptions access = {}) {
    backends_ = *Backends::Create(urls, metrics_);
    service_ = std::make_unique<RouterService>(*backends_, metrics_);
    service_->Register(router_);
    access_ = *Access::Create(std::move(access));
    server_ = *Server::Create(router_, *access_, metrics_, {.host = "127.0.0.1", .port = 0});
    backends_->Watch();
    ASSERT_TRUE(server_->Start().ok());
    client_ = *HttpClient::Create(*ParseUrl(fmt::format("127.0.0.1:{}", server_->port())), "");
    Await([&] {
      size_t up = 0;
      for (const int i : backends_->balancer().backends())
        up += backends_->balancer().StateOf(i).health == BackendHealth::kReady ? 1 : 0;
      return up == ready;
    });
  }

  FetchedReply Ask(const std::string& path, const std::string& body = "", HttpHeaders headers = {}) {
    auto reply = client_->Fetch({.path = path, .body = body, .headers = std::move(headers)});
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : FetchedReply{};
  }

  tcp::socket Send(const std::string& bytes) {
    tcp::socket socket(context_);
    socket.connect({asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server_->port())});
    asio::write(socket, asio::buffer(bytes));
    return socket;
  }

  static std::string Post(const std::string& body) {
    return fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}",
                       body.size(), body);
  }

  asio::io_context context_;
  Metrics metrics_{MetricOwner::kRouter};
  std::unique_ptr<Backends> backends_;
  std::unique_ptr<RouterService> service_;
  Router router_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(RouterServiceTest, RequestsAndAnswersPassUnchanged) {
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
  EXPECT_EQ(Ask("/v1/chat/completions").body.substr(0, 4), "GET ") << "the backend knows what is allowed";
}

TEST_F(RouterServiceTest, StreamsPassAsTheyAre) {
  const auto backend = Backend([](const CannedRequest&) { return StreamReply({"one", "two"}, 5); });
  Start({backend->url()}, 1);
  tcp::socket socket = Send(Post(kQuestion));
  std::string reply;
  asio::read_until(socket, asio::dynamic_buffer(reply), "\r\n0\r\n\r\n");
  EXPECT_THAT(reply, HasSubstr("Content-Type: text/event-stream"));
  for (const char* event : {"data: one\n\n", "data: two\n\n", "data: [DONE]\n\n"})
    EXPECT_THAT(reply, HasSubstr(event));
  asio::write(socket, asio::buffer(Post(kQuestion)));  // the connection goes on
  asio::read_until(socket, asio::dynamic_buffer(reply), "\r\n0\r\n\r\n");
}

TEST_F(RouterServiceTest, WhatHasNoBodyGetsNone) {
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

TEST_F(RouterServiceTest, AConversationGoesToOneBackend) {
  const auto answer = [](const CannedRequest&) { return JsonReply(200, "{}"); };
  const auto a = Backend(answer), b = Backend(answer);
  Start({a->url(), b->url()}, 2);
  const std::string path = "/v1/chat/completions";
  for (int talk = 0; talk < 6; ++talk) {
    json body = {{"messages", json::array()}};
    const size_t before = Asked(*a, path);
    for (int turn = 0; turn < 4; ++turn) {
      body["messages"].push_back(
          {{"role", "user"}, {"content", fmt::format("{} is the talk and {} the turn of it", talk, turn)}});
      EXPECT_EQ(Ask(path, body.dump()).status, 200);
    }
    const size_t at_a = Asked(*a, path) - before;
    EXPECT_TRUE(at_a == 0 || at_a == 4) << at_a;
  }
  EXPECT_EQ(Asked(*a, path), 12u);
  EXPECT_EQ(Asked(*b, path), 12u);
  const std::string metrics = Ask("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr(fmt::format("numoe_router_requests_total{{backend=\"{}\",by=\"prefix\"}} 9",
                                             a->url())));
  EXPECT_THAT(metrics, HasSubstr(fmt::format("numoe_router_backend_up{{backend=\"{}\"}} 1", b->url())));
}

TEST_F(RouterServiceTest, WhoRefusesOrIsNotThereIsPassedOver) {
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

TEST_F(RouterServiceTest, ABackendThatGoesIsNoticedByTheRequestThatMeetsIt) {
  auto leaving = Backend([](const CannedRequest&) { return JsonReply(200, "leaving"); });
  const auto staying = Backend([](const CannedRequest&) { return JsonReply(200, "staying"); });
  Start({leaving->url(), staying->url()}, 2);
  EXPECT_EQ(Ask("/v1/chat/completions", kQuestion).body, "leaving");
  leaving.reset();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask("/v1/chat/completions", kQuestion).body, "staying");
  const json health = json::parse(Ask("/health").body);
  EXPECT_EQ(health["status"], "ready");
  EXPECT_EQ(health["backends"][0]["ready"], false);
  EXPECT_THAT(health["detail"].get<std::string>(), HasSubstr("cannot connect"));
}

TEST_F(RouterServiceTest, ARefusalThatEverybodyGivesIsPassedOn) {
  const auto answer = [](const CannedRequest&) { return JsonReply(429, "full"); };
  const auto a = Backend(answer), b = Backend(answer);
  Start({a->url(), b->url()}, 2);
  const auto reply = Ask("/generate", R"({"text": "x"})");
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.body, "full");
  EXPECT_EQ(Asked(*a, "/generate") + Asked(*b, "/generate"), 2u);
}

TEST_F(RouterServiceTest, WhatMayHaveRunIsNotRunAgain) {
  const auto answer = [](const CannedRequest&) { return CannedReply{}; };  // reads the request and hangs up
  const auto a = Backend(answer), b = Backend(answer);
  Start({a->url(), b->url()}, 2);
  const auto reply = Ask("/generate", R"({"text": "x"})");
  EXPECT_EQ(reply.status, 502);
  EXPECT_EQ(json::parse(reply.body)["error"]["code"], "backend_lost");
  EXPECT_EQ(Asked(*a, "/generate") + Asked(*b, "/generate"), 1u);
}

TEST_F(RouterServiceTest, AnAnswerThatBreaksOffBreaksOff) {
  const auto backend = Backend([](const CannedRequest&) {
    CannedReply reply = StreamReply({"one"});
    reply.pieces.pop_back();
    return reply;
  });
  Start({backend->url()}, 1);
  tcp::socket socket = Send(Post(kQuestion));
  std::string reply;
  boost::system::error_code error;
  asio::read(socket, asio::dynamic_buffer(reply), error);
  EXPECT_EQ(error, asio::error::eof);
  EXPECT_THAT(reply, HasSubstr("data: one"));
  EXPECT_EQ(reply.find("\r\n0\r\n"), std::string::npos) << "it looks whole";
  Await([&] { return backends_->balancer().StateOf(0).running == 0; });
}

TEST_F(RouterServiceTest, TheClientsLeavingEndsTheBackendsWork) {
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
    // It comes although the answer goes on: nothing is gathered.
    asio::read_until(socket, asio::dynamic_buffer(reply), "data: one\n\n");
  }
  Await([&] { return backend->hung_up() > 0; });
  Await([&] { return backends_->balancer().StateOf(0).running == 0; });
}

TEST_F(RouterServiceTest, ASlowClientGetsALongAnswerWhole) {
  const std::string piece(1 << 20, '#');
  constexpr size_t kPieces = 64;  // far beyond what sockets and the stream's queue hold
  const auto backend = Backend([&](const CannedRequest&) {
    CannedReply reply{.pieces = {"HTTP/1.1 200 OK\r\n\r\n"}};
    reply.pieces.resize(kPieces + 1, piece);
    return reply;
  });
  Start({backend->url()}, 1);
  tcp::socket socket = Send(fmt::format(
      "POST /generate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"));
  Await([&] { return socket.available() >= size_t{32} << 10; });  // it comes faster than it is read
  std::string reply;
  boost::system::error_code error;
  asio::read(socket, asio::dynamic_buffer(reply), error);
  EXPECT_EQ(static_cast<size_t>(std::count(reply.begin(), reply.end(), '#')), kPieces * piece.size());
  EXPECT_EQ(reply.substr(reply.size() - 5), "0\r\n\r\n");
}

TEST_F(RouterServiceTest, KeptAnswersAreFoundWhereTheyAre) {
  const auto keeps = [](const std::string& id, const std::string& name) {
    return [id, name](const CannedRequest& request) {
      const bool here =
          request.target.find("/" + id) != std::string::npos || request.body.find(id) != std::string::npos;
      return here ? JsonReply(200, name) : JsonReply(404, "not at " + name);
    };
  };
  const auto a = Backend(keeps("resp_a", "a")), b = Backend(keeps("resp_b", "b"));
  Start({a->url(), b->url()}, 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Ask("/v1/responses/resp_a").body, "a");
    EXPECT_EQ(Ask("/v1/responses/resp_b").body, "b");
  }
  EXPECT_EQ(Asked(*a, "/v1/responses/resp_b/input_items?limit=1"), 1u) << "asked once, then remembered";
  EXPECT_EQ(Ask("/v1/responses", R"({"input": "x", "previous_response_id": "resp_b"})").body, "b");
  EXPECT_EQ(Ask("/v1/responses/resp_c").status, 404);
  EXPECT_EQ(Ask("/v1/responses/resp_c%2f..%2fx").status, 404);
  for (const CannedRequest& request : a->requests())
    EXPECT_EQ(request.target.find("x/input_items"), std::string::npos) << request.target;
}

TEST_F(RouterServiceTest, CommandsReachEverybodyAndListsAreJoined) {
  const auto answers = [](const std::string& model) {
    return [model](const CannedRequest& request) {
      if (request.target == "/abort_request") return JsonReply(200, R"({"aborted": 2})");
      if (request.target == "/v1/models") return JsonReply(200, R"({"data": [{"id": ")" + model + R"("}]})");
      return JsonReply(200, "{}");
    };
  };
  const auto a = Backend(answers("m")), b = Backend(answers("n"));
  const auto drains = Backend(answers("o"), R"({"status": "draining", "detail": ""})");
  Start({a->url(), b->url(), drains->url()}, 2);
  EXPECT_EQ(Ask("/abort_request", R"({"rid": "x"})").body, R"({"aborted":6})") << "who drains still runs it";
  EXPECT_EQ(Ask("/v1/models").body, R"({"data":[{"id":"m"},{"id":"n"}]})");
  EXPECT_EQ(Ask("/v1/chat/completions", kQuestion).status, 200);
  EXPECT_GT(backends_->balancer().prefixes(), 0u);
  EXPECT_EQ(Ask("/flush_cache").status, 200);
  EXPECT_EQ(backends_->balancer().prefixes(), 0u);
  EXPECT_EQ(Asked(*a, "/flush_cache"), 1u);
  EXPECT_EQ(Asked(*b, "/flush_cache"), 1u);
}

TEST_F(RouterServiceTest, WhoIsOverloadedIsPassedOverAndStaysReady) {
  const auto a = Backend([](const CannedRequest&) {
    return JsonReply(503, R"({"error": {"message": "m", "code": "overloaded"}})");
  });
  const auto b = Backend([](const CannedRequest&) { return JsonReply(200, "b"); });
  Start({a->url(), b->url()}, 2);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Ask("/generate", "{}").body, "b");
  EXPECT_GT(Asked(*a, "/generate"), 0u);
  EXPECT_EQ(backends_->balancer().StateOf(0).health, BackendHealth::kReady);
}

TEST_F(RouterServiceTest, TheLastRefusalIsPassedOnWhole) {
  const auto only = Backend([](const CannedRequest&) {
    return JsonReply(503, R"({"error": {"message": "m", "code": "overloaded"}})");
  });
  Start({only->url()}, 1);
  for (int i = 0; i < 2; ++i) {
    const auto reply = Ask("/generate", "{}");
    EXPECT_EQ(reply.status, 503);
    EXPECT_THAT(reply.body, HasSubstr("overloaded")) << "and not that nobody serves";
  }
}

TEST_F(RouterServiceTest, OnlyAResetOfEverybodysForgetsPlacements) {
  std::atomic<int> status{401};
  const auto answers = [&status](const CannedRequest& request) {
    return JsonReply(request.target == "/flush_cache" ? status.load() : 200, "{}");
  };
  const auto a = Backend(answers), b = Backend([](const CannedRequest&) { return JsonReply(200, "{}"); });
  Start({a->url(), b->url()}, 2);
  EXPECT_EQ(Ask("/v1/chat/completions", kQuestion).status, 200);
  ASSERT_GT(backends_->balancer().prefixes(), 0u);
  EXPECT_EQ(Ask("/flush_cache").status, 401);
  EXPECT_GT(backends_->balancer().prefixes(), 0u) << "refused";
  status = 200;
  EXPECT_EQ(Ask("/flush_cache", "", {{"X-Api-Key", "a"}}).status, 200);
  EXPECT_GT(backends_->balancer().prefixes(), 0u) << "a key's own";
  EXPECT_EQ(Ask("/flush_cache").status, 200);
  EXPECT_EQ(backends_->balancer().prefixes(), 0u);
}

TEST_F(RouterServiceTest, NobodyThereIsSaidAndDrainingToo) {
  const auto starting = Backend([](const CannedRequest&) { return JsonReply(503, "{}"); },
                                R"({"status": "starting", "detail": "reading"})");
  Start({starting->url()}, 0);
  Await([&] { return Asked(*starting, "/health") > 0; });
  Await([&] {
    return json::parse(Ask("/health").body)["detail"].get<std::string>().find("starting") !=
           std::string::npos;
  });
  EXPECT_EQ(Ask("/health").status, 503);
  const auto reply = Ask("/v1/chat/completions", kQuestion);
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("starting"));
  EXPECT_EQ(Ask("/v1/models").status, 503);
  EXPECT_EQ(json::parse(Ask("/version").body).size(), 1u);
  service_->Drain();
  EXPECT_EQ(json::parse(Ask("/health").body)["status"], "draining");
  EXPECT_THAT(Ask("/generate", "{}").body, HasSubstr("draining"));
}

TEST_F(RouterServiceTest, KeysAreAskedForAndPassedOn) {
  const auto backend = Backend(
      [](const CannedRequest& request) { return JsonReply(200, "key: " + request.Header("x-api-key")); });
  Start({backend->url()}, 1, {.keys = {"secret"}});
  EXPECT_EQ(Ask("/generate", "{}").status, 401);
  EXPECT_EQ(Ask("/anything").status, 401);
  EXPECT_EQ(Ask("/generate", "{}", {{"X-Api-Key", "secret"}}).body, "key: secret");
  EXPECT_EQ(Ask("/").status, 200) << "the page is open";
  EXPECT_EQ(Ask("/health").status, 200);
}

TEST_F(RouterServiceTest, ANameOfAGroupIsLookedUp) {
  const auto backend =
      Backend([](const CannedRequest& request) { return JsonReply(200, request.Header("host")); });
  const std::string port = backend->url().substr(backend->url().rfind(':') + 1);
  Start({"dns+http://localhost:" + port}, 1);
  EXPECT_EQ(Ask("/generate", "{}").body, "localhost:" + port) << "its name, which a certificate would have";
  const json health = json::parse(Ask("/health").body);
  ASSERT_EQ(health["backends"].size(), 1u) << "one host, whatever families it has addresses of";
  EXPECT_EQ(health["backends"][0]["url"], "http://127.0.0.1:" + port);
  EXPECT_THAT(Ask("/metrics").body,
              HasSubstr(fmt::format("numoe_router_backend_up{{backend=\"http://127.0.0.1:{}\"}} 1", port)));
}

TEST_F(RouterServiceTest, AGroupThatNobodyKnowsIsSaid) {
  const auto backend = Backend([](const CannedRequest&) { return JsonReply(200, "here"); });
  Start({"dns+http://nowhere.invalid:8080", backend->url()}, 1);
  Await([&] { return backends_->Missing().find("its name is not known") != std::string::npos; });
  EXPECT_THAT(Ask("/health").body, HasSubstr("dns+http://nowhere.invalid:8080: its name is not known"));
  EXPECT_EQ(Ask("/generate", "{}").body, "here");
}

TEST_F(RouterServiceTest, AGroupsAddressThatIsThereAlreadyIsNoSecondBackend) {
  const auto backend = Backend([](const CannedRequest&) { return JsonReply(200, ""); });
  const std::string port = backend->url().substr(backend->url().rfind(':') + 1);
  Start({"http://127.0.0.1:" + port, "dns+http://localhost:" + port}, 1);
  Await([&] { return backends_->Missing().empty(); });
  EXPECT_EQ(backends_->balancer().backends().size(), 1u);
}

TEST(Backends, UrlsThatAreNoneAreNamed) {
  Metrics metrics(MetricOwner::kRouter);
  const auto refusal = [&](const std::vector<std::string>& urls) {
    return std::string(Backends::Create(urls, metrics).status().message());
  };
  EXPECT_THAT(refusal({"ftp://x"}), HasSubstr("--backends: 'ftp://x'"));
  EXPECT_THAT(refusal({"a:1", "http://a:1/"}), HasSubstr("http://a:1 comes twice"));
  EXPECT_THAT(refusal({"dns+http://a", "dns+http://a:80"}), HasSubstr("dns+http://a comes twice"));
  EXPECT_THAT(refusal({"dns+ftp://x"}), HasSubstr("--backends: 'ftp://x'"));
  EXPECT_THAT(refusal({}), HasSubstr("found 0"));
  EXPECT_TRUE(Backends::Create({"a:1", "https://b"}, metrics).ok()) << "names are looked up later";
}

}  // namespace
}  // namespace numoe
