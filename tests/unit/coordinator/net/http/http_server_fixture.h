// A real HTTP server on a free port of 127.0.0.1, for tests that talk to it over real sockets.
//
// Threads: the test's thread calls everything; handlers of urls_ run on the server's threads and use only
// atomic members and those guarded by mutex_.
#pragma once

#include <atomic>
#include <boost/asio.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "coordinator/net/http/server.h"
#include "gtest/gtest.h"
#include "tests/support/becomes.h"

namespace numoe::net {

class HttpServerTest : public ::testing::Test {
 protected:
  using Socket = boost::asio::ip::tcp::socket;

  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
    waiting_.reset();
  }

  // Serves urls_, to which the test has added its routes.
  void Start(ServerOptions options = {}, AccessOptions access = {}) {
    options.host = "127.0.0.1";
    options.port = 0;
    access_ = *Access::Create(std::move(access));
    auto server = Server::Create(urls_, *access_, metrics_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const absl::Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  Socket Connect() {
    Socket socket(context_);
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server_->port())});
    return socket;
  }

  // Sends `bytes` on a new connection and returns everything that the server answers until it closes.
  std::string Ask(const std::string& bytes) {
    Socket socket = Connect();
    return AskOn(socket, bytes);
  }
  template <typename Stream>
  static std::string AskOn(Stream& stream, const std::string& bytes) {
    boost::system::error_code error;
    boost::asio::write(stream, boost::asio::buffer(bytes), error);
    std::string reply;
    boost::asio::read(stream, boost::asio::dynamic_buffer(reply), error);
    return reply;
  }

  // GET /wait: Waiting() returns its exchange, and gone_ counts the clients that have left before an answer.
  void AddWait() {
    urls_.Add({.method = "GET",
               .pattern = "/wait",
               .summary = "",
               .handle = [this](const std::shared_ptr<Exchange>& e) {
                 e->OnGone([this] { ++gone_; });
                 const std::lock_guard lock(mutex_);
                 waiting_ = e;
               }});
  }
  std::shared_ptr<Exchange> Waiting() {
    EXPECT_TRUE(Becomes([this] {
      const std::lock_guard lock(mutex_);
      return waiting_ != nullptr;
    }));
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

  boost::asio::io_context context_;
  UrlTable urls_;
  std::unique_ptr<Access> access_;
  Metrics metrics_{MetricOwner::kCoordinator};
  std::unique_ptr<Server> server_;
  std::atomic<int> gone_{0};
  std::mutex mutex_;
  std::shared_ptr<Exchange> waiting_;
};

}  // namespace numoe::net
