#include "coordinator/net/http/server.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/watched_file.h"
#include "common/transport/certificate.h"
#include "coordinator/net/http/authority.h"
#include "coordinator/net/http/connection.h"

namespace numoe::net {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

constexpr std::chrono::milliseconds kFinishLook(2);
constexpr std::chrono::seconds kTlsLook(1);
constexpr std::chrono::seconds kTrimLook(limits::kHttpTrimSeconds);

absl::StatusOr<std::shared_ptr<asio::ssl::context>> LoadTls(const ServerOptions& options) {
  auto tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  boost::system::error_code error;
  const auto fail = [&error](const char* flag, const std::filesystem::path& path) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}: {}; expected a PEM file", flag, path.string(), error.message()));
  };
  tls->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1, error);
  tls->use_certificate_chain_file(options.tls_certificate.string(), error);
  if (error) return fail("--ssl-certfile", options.tls_certificate);
  tls->use_private_key_file(options.tls_key.string(), asio::ssl::context::pem, error);
  if (error) return fail("--ssl-keyfile", options.tls_key);
  return tls;
}

class BeastServer final : public Server {
 public:
  BeastServer(const UrlTable& urls, Access& access, Metrics& metrics, const ServerOptions& options)
      : options_(WithHost(options, access)),
        urls_(&urls),
        pages_({.listed = options.allowed_origins,
                .keys = access.guarded(),
                .loopback = IsLoopbackName(options_.host),
                .certified = !options.tls_certificate.empty()}),
        log_(metrics),
        parts_{urls_,
               access,
               metrics,
               options_,
               pages_,
               log_,
               std::make_shared<std::atomic<int>>(0),
               std::make_shared<OpenConnections>(static_cast<size_t>(options.connections_max)),
               std::make_shared<RequestBodies>(options.bodies_bytes_max)},
        certificate_(options.tls_certificate),
        key_(options.tls_key),
        acceptor_(asio::make_strand(context_)),
        pause_(acceptor_.get_executor()),
        tls_look_(acceptor_.get_executor()),
        trim_look_(acceptor_.get_executor()) {}

  ~BeastServer() override {
    Stop();
    parts_.connections->DropAnswers();
  }

  void Stop() override {
    context_.stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  absl::Status Prepare() {
    if (options_.tls_certificate.empty() != options_.tls_key.empty())
      return absl::InvalidArgumentError("--ssl-certfile and --ssl-keyfile: expected both or neither of them");
    if (!options_.tls_certificate.empty()) {
      ASSIGN_OR_RETURN(tls_, LoadTls(options_));
      SayTls("");
    }
    return Bind();
  }

  absl::Status Start() override {
    boost::system::error_code error;
    acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) return Fail("cannot listen", error);
    Accept();
    if (tls_ != nullptr) WatchTls();
    WatchMemory();
    for (int i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this, i] {
        pthread_setname_np(pthread_self(), fmt::format("http-{}", i).c_str());
        context_.run();
      });
    }
    return absl::OkStatus();
  }

  bool Finish(int64_t deadline_ms) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
    while (parts_.answering->load() > 0) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(kFinishLook);
    }
    return true;
  }

  void Use(const UrlTable& urls) override { urls_.store(&urls); }

  int port() const override { return port_; }

  std::string Where() const override {
    const std::string where = fmt::format("{}:{}", options_.host, port_);
    return IsLoopbackName(options_.host)
               ? where +
                     ", which only this host reaches; --host 0.0.0.0 serves other hosts as well, and "
                     "--api-key-file limits who may use it"
               : where;
  }

 private:
  // A server without keys serves only programs on its own host, unless --host says otherwise.
  static ServerOptions WithHost(ServerOptions options, const Access& access) {
    if (options.host.empty()) options.host = access.guarded() ? "0.0.0.0" : "127.0.0.1";
    return options;
  }

  absl::Status Fail(const char* what, boost::system::error_code error) const {
    return absl::InvalidArgumentError(
        fmt::format("--host={} --port={}: {}: {}", options_.host, options_.port, what, error.message()));
  }

  absl::Status Bind() {
    boost::system::error_code error;
    const asio::ip::address address = asio::ip::make_address(options_.host, error);
    if (error)
      return Fail(
          "this is not an IP address; expected one, such as 127.0.0.1 (only this host) or 0.0.0.0 (all)",
          error);
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(options_.port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (error)
      return Fail(error == asio::error::address_in_use
                      ? "cannot bind; is another server using this port? --port=0 selects a free one"
                      : "cannot bind; expected an address of this host and a port that this user may use",
                  error);
    port_ = acceptor_.local_endpoint(error).port();
    return absl::OkStatus();
  }

  void Accept() {
    const auto usual = static_cast<size_t>(options_.connections_max);
    const size_t most = usual + limits::kHttpSpareConnections, open = parts_.connections->size();
    if (open >= most)
      return AcceptLater(fmt::format("{} are open; expected at most --max-connections={} and {} spare ones",
                                     open, usual, limits::kHttpSpareConnections));
    waits_ = waits_ && open >= usual;
    acceptor_.async_accept(asio::make_strand(context_),
                           [this](boost::system::error_code error, tcp::socket socket) {
                             if (error) return AcceptLater(error.message());
                             boost::system::error_code ignored;
                             socket.set_option(tcp::no_delay(true), ignored);
                             RefreshTls();
                             ServeConnection(std::move(socket), tls_, parts_);
                             Accept();
                           });
  }

  // Called if there are too many connections, or no descriptor for another one: trying again at once would
  // keep a core busy until some are free. Meanwhile clients wait in the operating system's queue.
  void AcceptLater(const std::string& why) {
    if (!acceptor_.is_open()) return;
    if (!waits_) LogWarning("new connections wait to be accepted: {}", why);
    waits_ = true;
    pause_.expires_after(std::chrono::milliseconds(100));
    pause_.async_wait([this](boost::system::error_code cancelled) {
      if (!cancelled) Accept();
    });
  }

  // A new certificate is used for later connections. If it is broken or its key is missing, the old one stays
  // in use.
  void RefreshTls() {
    if (tls_ == nullptr) return;
    const bool certificate = certificate_.Changed(), key = key_.Changed();
    if (!certificate && !key) return;
    auto fresh = LoadTls(options_);
    if (!fresh.ok())
      return LogError("{}; what was read before stays in use", std::string(fresh.status().message()));
    tls_ = *std::move(fresh);
    SayTls("changed and is used: ");
  }

  // Checks the files even without connections, because the metric shows the expiry of the certificate that
  // the next client will get.
  void WatchTls() {
    tls_look_.expires_after(kTlsLook);
    tls_look_.async_wait([this](boost::system::error_code cancelled) {
      if (cancelled) return;
      RefreshTls();
      WatchTls();
    });
  }

  // Trims by a timer and not when a request ends: no answer waits for it, and many large requests cost one
  // check.
  void WatchMemory() {
    trim_look_.expires_after(kTrimLook);
    trim_look_.async_wait([this](boost::system::error_code cancelled) {
      if (cancelled) return;
      parts_.bodies->TrimMemory();
      WatchMemory();
    });
  }

  void SayTls(const char* what) {
    const X509& used = *SSL_CTX_get0_certificate(tls_->native_handle());
    LogInfo("--ssl-certfile: {}{}", what, DescribeCertificate(used));
    parts_.metrics.With(GaugeId::kCertificateExpiry, {"ssl-certfile"})
        .Set(static_cast<double>(ExpiryOf(used)));
  }

  const ServerOptions options_;
  std::atomic<const UrlTable*> urls_;
  const PageOrigins pages_;
  AnswerLog log_;
  const ServerParts parts_;
  WatchedFile certificate_, key_;
  std::shared_ptr<asio::ssl::context> tls_;  // null for plain text; used on the acceptor's strand
  asio::io_context context_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_, tls_look_, trim_look_;
  bool waits_ = false;  // connections wait to be accepted, and the log has said so
  int port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const UrlTable& urls, Access& access, Metrics& metrics,
                                                       const ServerOptions& options) {
  auto server = std::make_unique<BeastServer>(urls, access, metrics, options);
  RETURN_IF_ERROR(server->Prepare());
  return server;
}

}  // namespace numoe::net
