#include "coordinator/http/server.h"

#include <fmt/format.h>
#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <thread>

#include "common/base/status.h"
#include "coordinator/http/session.h"

namespace numoe {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

class BeastServer final : public Server {
 public:
  BeastServer(const ServerDeps& deps, const ServerOptions& options)
      : deps_(deps), options_(options), acceptor_(context_) {}

  ~BeastServer() override {
    context_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Listen() {
    boost::system::error_code error;
    const auto fail = [&](const char* what) {
      return absl::InvalidArgumentError(
          fmt::format("--host={} --port={}: {}: {}", options_.host, options_.port, what, error.message()));
    };
    const asio::ip::address address = asio::ip::make_address(options_.host, error);
    if (error) return fail("not an IP address");
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(options_.port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (error) return fail("cannot bind; is another server on this port?");
    acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) return fail("cannot listen");
    port_ = acceptor_.local_endpoint(error).port();
    Accept();
    for (int i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this, i] {
        pthread_setname_np(pthread_self(), fmt::format("http-{}", i).c_str());
        context_.run();
      });
    }
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  void Accept() {
    acceptor_.async_accept(asio::make_strand(context_),
                           [this](boost::system::error_code error, tcp::socket socket) {
                             if (!error) {
                               boost::system::error_code ignored;
                               socket.set_option(tcp::no_delay(true), ignored);
                               std::make_shared<Session>(std::move(socket), deps_)->Run();
                             }
                             if (acceptor_.is_open()) Accept();
                           });
  }

  const ServerDeps deps_;
  const ServerOptions options_;
  asio::io_context context_;
  tcp::acceptor acceptor_;
  int port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerDeps& deps, const ServerOptions& options) {
  auto server = std::make_unique<BeastServer>(deps, options);
  RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace numoe
