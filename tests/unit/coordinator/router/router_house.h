// RouterHouse: a router over real sockets, in front of backends that answer what the test says.
//
// The backends are CannedServers, whose /health the router checks. Start returns when as many of them are
// ready as the test expects. The servers run their own threads; everything else is for use by one thread.
#pragma once

#include <fmt/format.h>

#include <boost/asio.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/net/client/http_client.h"
#include "coordinator/net/http/server.h"
#include "coordinator/router/router_service.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/canned_server.h"

namespace numoe::router {

namespace asio = boost::asio;
using nlohmann::json;
using tcp = asio::ip::tcp;

inline constexpr char kReady[] = R"({"status": "ready", "detail": ""})";
inline constexpr char kQuestion[] =
    R"({"messages": [{"role": "user", "content": "a question of some length"}]})";

template <typename Condition>
void Await(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Returns a ready backend that answers all other requests with `answer`.
inline std::unique_ptr<CannedServer> Backend(CannedServer::Answer answer, const char* health = kReady) {
  return std::make_unique<CannedServer>([answer = std::move(answer), health](const CannedRequest& request) {
    if (request.target == "/health") return JsonReply(health == kReady ? 200 : 503, health);
    return answer(request);
  });
}

inline size_t Asked(const CannedServer& server, const std::string& target) {
  size_t count = 0;
  for (const CannedRequest& request : server.requests()) count += request.target == target ? 1 : 0;
  return count;
}

class RouterHouse : public ::testing::Test {
 protected:
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
    if (service_ != nullptr) service_->Stop();
    server_.reset();
  }

  void Start(const std::vector<std::string>& urls, size_t ready, net::AccessOptions access = {}) {
    backends_ = *Backends::Create(urls, metrics_);
    service_ = std::make_unique<RouterService>(*backends_, metrics_);
    service_->Register(urls_);
    access_ = *net::Access::Create(std::move(access));
    server_ = *net::Server::Create(urls_, *access_, metrics_, {.host = "127.0.0.1", .port = 0});
    backends_->Watch();
    ASSERT_TRUE(server_->Start().ok());
    client_ = *net::HttpClient::Create(*net::ParseUrl(fmt::format("127.0.0.1:{}", server_->port())), "");
    Await([&] {
      size_t up = 0;
      for (const int i : backends_->balancer().backends())
        up += backends_->balancer().StateOf(i).health == BackendHealth::kReady ? 1 : 0;
      return up == ready;
    });
  }

  net::FetchedReply Ask(const std::string& path, const std::string& body = "",
                        net::HttpHeaders headers = {}) {
    auto reply = client_->Fetch({.path = path, .body = body, .headers = std::move(headers)});
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : net::FetchedReply{};
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
  net::UrlTable urls_;
  std::unique_ptr<net::Access> access_;
  std::unique_ptr<net::Server> server_;
  std::unique_ptr<net::HttpClient> client_;
};

}  // namespace numoe::router
