// Backends: the coordinators behind the router: where they are, and how they are.
//
// A thread ("watch") asks each for its /health as often as the balancer says and looks its name up again
// while it is away, so that one that comes back under another address is found. Requests tell what they met
// (Lose). A backend's client is replaced when its address changes; whoever sends holds the one that it got.
// Thread-safe but for Create and the destructor.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"
#include "coordinator/client/http_client.h"
#include "coordinator/router/balancer.h"

namespace numoe {

class Backends {
 public:
  /// INVALID_ARGUMENT names a URL that is none or comes twice, and TLS that cannot be set up. Names are
  /// looked up later: a backend may come after the router. `metrics` outlives this.
  static absl::StatusOr<std::unique_ptr<Backends>> Create(const std::vector<std::string>& urls,
                                                          Metrics& metrics);
  ~Backends();
  /// Begins to ask them. Once.
  void Watch();

  Balancer& balancer() { return balancer_; }
  int size() const { return balancer_.backends(); }
  /// Its URL, for metrics and logs.
  const std::string& NameOf(int backend) const { return members_[static_cast<size_t>(backend)]->name; }
  /// Null: its name is not known yet.
  std::shared_ptr<HttpClient> ClientOf(int backend) const;
  /// A request could not reach it, or was told that it serves nobody.
  void Lose(int backend, const std::string& why);
  /// One line about those that are not ready: "http://a:8000: ..."; "" if all are.
  std::string Missing() const;

 private:
  struct Member {
    Member(Url its_url, boost::asio::io_context& context)
        : url(std::move(its_url)), name(url.ToString()), timer(context), resolver(context) {}

    const Url url;
    const std::string name;
    std::shared_ptr<HttpClient> client;  // guarded by mutex_
    // Of the watching thread:
    boost::asio::steady_timer timer;
    boost::asio::ip::tcp::resolver resolver;
    double named_s = 0;  // when its name was looked up last
    int status = 0;      // of the look that is going on
    std::string body;
  };

  explicit Backends(const std::vector<Url>& urls);
  double Now() const;
  void Hear(int backend, BackendHealth health, const std::string& detail);
  void Wait(int backend);
  void Look(int backend);
  void Resolve(int backend);
  void Ask(int backend, const std::shared_ptr<HttpClient>& client);
  absl::Status Use(Member& member, HttpClient::Endpoints endpoints);

  Balancer balancer_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  boost::asio::io_context context_;
  std::vector<std::unique_ptr<Member>> members_;
  mutable std::mutex mutex_;
  std::thread thread_;
};

}  // namespace numoe
