// Backends: the coordinators behind the router: where they are, and how they are.
//
// Each URL is a backend, or with dns+ before it a *group*: every address that its name has is a backend of
// its own, and those that come or go are followed. A thread ("watch") asks each backend for its /health as
// often as the balancer says, looks the name of one up again while it is away, so that one that comes back
// under another address is found, and the names of groups all the time. Requests tell what they met (Lose). A
// backend's client is replaced when its address changes; whoever sends holds the one that it got. Thread-safe
// but for Create and the destructor.
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
  /// INVALID_ARGUMENT names a URL that is none or comes twice, and TLS that cannot be set up. Names are
  /// looked up later: a backend may come after the router. `refresh_s`: between looks at the name of a
  /// group. `metrics` outlives this.
  static absl::StatusOr<std::unique_ptr<Backends>> Create(const std::vector<std::string>& urls,
                                                          Metrics& metrics,
                                                          double refresh_s = limits::kRouterGroupSeconds);
  ~Backends();
  /// Begins to ask them. Once.
  void Watch();

  Balancer& balancer() { return balancer_; }
  /// Its URL, for metrics and logs.
  std::string NameOf(int backend) const;
  /// Null: its name is not known yet, or it is no more.
  std::shared_ptr<net::HttpClient> ClientOf(int backend) const;
  /// A request could not reach it, or was told that it serves nobody.
  void Lose(int backend, const std::string& why);
  /// One line about those that are not ready: "http://a:8000: ..."; "" if all are.
  std::string Missing() const;

 private:
  using Endpoint = boost::asio::ip::tcp::endpoint;
  using Found = boost::asio::ip::tcp::resolver::results_type;

  struct Member {
    Member(int its_number, net::Url its_url, std::string its_name, bool at_address,
           boost::asio::io_context& context)
        : number(its_number),
          url(std::move(its_url)),
          name(std::move(its_name)),
          of_group(at_address),
          timer(context),
          resolver(context) {}

    const int number;    // in the balancer
    const net::Url url;  // of a group's: with the group's name, which certificates have
    const std::string name;
    const bool of_group;  // its address never changes
    // Of the watching thread:
    boost::asio::steady_timer timer;
    boost::asio::ip::tcp::resolver resolver;
    double named_s = 0;    // when its name was looked up last
    int status = 0;        // of the look that is going on
    bool leaving = false;  // its group's name has its address no more
    bool gone = false;     // removed
    std::string body;
  };
  using MemberPtr = std::shared_ptr<Member>;
  // A member and its client, which stands beside it because the mutex that guards it is not the member's.
  struct Entry {
    MemberPtr member;
    std::shared_ptr<net::HttpClient> client;  // null: its name is not known yet
  };

  struct Group {
    Group(size_t its_number, net::Url its_url, boost::asio::io_context& context)
        : number(its_number),
          url(std::move(its_url)),
          name("dns+" + url.ToString()),
          timer(context),
          resolver(context) {}

    const size_t number;  // in groups_
    const net::Url url;
    const std::string name;
    // Of the watching thread:
    boost::asio::steady_timer timer;
    boost::asio::ip::tcp::resolver resolver;
    std::map<Endpoint, MemberPtr> members;
    bool crowded = false;  // more addresses than backends may be: said once
  };

  Backends(Metrics& metrics, double refresh_s);
  double Now() const;
  void Hear(const Member& member, BackendHealth health, const std::string& detail);
  MemberPtr Find(int backend) const;
  std::vector<MemberPtr> All() const;
  MemberPtr Add(const net::Url& url, std::string name, bool of_group, std::shared_ptr<net::HttpClient> client)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Emit(Metrics& metrics);

  void Wait(const MemberPtr& member);
  void Look(const MemberPtr& member);
  void Resolve(const MemberPtr& member);
  void Ask(const MemberPtr& member, const std::shared_ptr<net::HttpClient>& client);
  absl::Status Use(const Member& member, net::HttpClient::Endpoints endpoints);

  void LookUp(Group& group);
  void Follow(Group& group, const Found& found);
  void Join(Group& group, const Endpoint& endpoint);
  void Part(Group& group);

  const double refresh_s_;
  Balancer balancer_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  boost::asio::io_context context_;
  std::vector<std::unique_ptr<Group>> groups_;  // unchanged after Create
  mutable Mutex mutex_;
  std::map<int, Entry> members_ ABSL_GUARDED_BY(mutex_);
  // [group]: why its name is not known; "" when it is.
  std::vector<std::string> group_details_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace numoe::router
