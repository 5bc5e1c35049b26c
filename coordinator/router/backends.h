// Backends: the coordinators behind the router, their addresses and their health.
//
// Each URL is a backend, or with dns+ before it a *group*: every address of its name is a backend of its own,
// and the group follows the name's addresses as they change. A thread ("watch") asks each backend for its
// /health as often as the balancer says. It looks up the name of a backend that is out again, so that it
// finds a backend that returns under another address, and the names of groups regularly. A request that finds
// a backend failed calls MarkFailed. A backend's client is replaced when its address changes; a sender keeps
// the client that it got. Thread-safe, except Create and the destructor.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/observe/metrics.h"
#include "coordinator/net/client/http_client.h"
#include "coordinator/router/balancer.h"
#include "coordinator/router/router_limits.h"

namespace numoe::router {

class Backends {
 public:
  /// INVALID_ARGUMENT names a URL that is not valid or comes twice, or TLS that cannot be set up. Names are
  /// looked up later, because a backend may start after the router. `refresh_s` is the time between two
  /// lookups of a group's name. `metrics` outlives this object.
  static absl::StatusOr<std::unique_ptr<Backends>> Create(const std::vector<std::string>& urls,
                                                          Metrics& metrics,
                                                          double refresh_s = limits::kRouterGroupSeconds);
  ~Backends();
  /// Begins to check the backends' health. REQUIRES: it is called once.
  void Watch();

  Balancer& balancer() { return balancer_; }
  /// Returns the backend's URL, for metrics and logs.
  std::string NameOf(int backend) const;
  /// Returns null if the backend's name is not resolved yet, or if the backend was removed.
  std::shared_ptr<net::HttpClient> ClientOf(int backend) const;
  /// Records that a request could not reach the backend, or that it refuses all requests.
  void MarkFailed(int backend, const std::string& why);
  /// Returns one line about the backends that are not ready, as in "http://a:8000: ..."; "" if all are ready.
  std::string Missing() const;

 private:
  using Endpoint = boost::asio::ip::tcp::endpoint;
  using Found = boost::asio::ip::tcp::resolver::results_type;

  struct Backend {
    Backend(int its_number, net::Url its_url, std::string its_name, bool at_address,
            boost::asio::io_context& context)
        : number(its_number),
          url(std::move(its_url)),
          name(std::move(its_name)),
          of_group(at_address),
          timer(context),
          resolver(context) {}

    const int number;    // in the balancer
    const net::Url url;  // with the name of its group, if any, for which certificates are issued
    const std::string name;
    const bool of_group;  // whether it is one address of a group, which never changes
    // Only the watching thread uses these:
    boost::asio::steady_timer timer;
    boost::asio::ip::tcp::resolver resolver;
    double named_s = 0;    // when its name was looked up last
    int status = 0;        // HTTP status of the running health check
    std::string body;      // what it has answered so far
    bool leaving = false;  // its group's name no longer has its address
    bool gone = false;     // it was removed
  };
  using BackendPtr = std::shared_ptr<Backend>;
  // A backend and its client, which is kept here because the mutex of Backends guards it.
  struct Entry {
    BackendPtr backend;
    std::shared_ptr<net::HttpClient> client;  // null until its name is resolved
  };

  struct Group {
    Group(size_t its_number, net::Url its_url, boost::asio::io_context& context)
        : number(its_number),
          url(std::move(its_url)),
          name("dns+" + url.ToString()),
          timer(context),
          resolver(context) {}

    const size_t number;  // index in groups_
    const net::Url url;
    const std::string name;
    // Only the watching thread uses these:
    boost::asio::steady_timer timer;
    boost::asio::ip::tcp::resolver resolver;
    std::map<Endpoint, BackendPtr> backends;
    bool over_limit = false;  // there are too many addresses, which has been logged
  };

  Backends(Metrics& metrics, double refresh_s);
  double Now() const;
  void RecordHealth(const Backend& backend, BackendHealth health, const std::string& detail);
  BackendPtr Find(int backend) const;
  std::vector<BackendPtr> All() const;
  BackendPtr Add(const net::Url& url, std::string name, bool of_group,
                 std::shared_ptr<net::HttpClient> client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Emit(Metrics& metrics);

  void Wait(const BackendPtr& backend);
  void CheckHealth(const BackendPtr& backend);
  void Resolve(const BackendPtr& backend);
  void RequestHealth(const BackendPtr& backend, const std::shared_ptr<net::HttpClient>& client);
  absl::Status Use(const Backend& backend, net::HttpClient::Endpoints endpoints);

  void LookUp(Group& group);
  void ApplyDnsAnswer(Group& group, const Found& found);
  void AddAddress(Group& group, const Endpoint& endpoint);
  void RemoveLeft(Group& group);

  const double refresh_s_;
  Balancer balancer_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  boost::asio::io_context context_;
  std::vector<std::unique_ptr<Group>> groups_;  // unchanged after Create
  mutable Mutex mutex_;
  std::map<int, Entry> backends_ ABSL_GUARDED_BY(mutex_);
  // [group] why the group's name could not be resolved; "" if it was resolved.
  std::vector<std::string> group_details_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace numoe::router
