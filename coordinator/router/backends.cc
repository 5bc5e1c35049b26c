#include "coordinator/router/backends.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "coordinator/router/backend_health.h"
#include "coordinator/router/router_limits.h"

namespace numoe::router {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

constexpr std::string_view kGroupPrefix = "dns+";

const char* HealthName(BackendHealth health) {
  constexpr const char* kNames[] = {"ready", "degraded", "out"};
  static_assert(std::size(kNames) == static_cast<size_t>(BackendHealth::kOut) + 1);
  return kNames[static_cast<size_t>(health)];
}

// The endpoints of one family: a host that has addresses of both is one backend and not two.
std::set<tcp::endpoint> OfFirstFamily(const tcp::resolver::results_type& found) {
  std::set<tcp::endpoint> endpoints;
  for (const auto& entry : found) {
    if (entry.endpoint().protocol() == found.begin()->endpoint().protocol())
      endpoints.insert(entry.endpoint());
  }
  return endpoints;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backends>> Backends::Create(const std::vector<std::string>& urls,
                                                           Metrics& metrics, double refresh_s) {
  std::vector<std::pair<net::Url, bool>> parsed;  // and whether it is a group's
  std::set<std::string> names;
  for (const std::string& text : urls) {
    const bool group = text.starts_with(kGroupPrefix);
    const absl::StatusOr<net::Url> url =
        net::ParseUrl(group ? std::string_view(text).substr(kGroupPrefix.size()) : text);
    if (!url.ok()) return Annotate(url.status(), "--backends");
    const std::string name = fmt::format("{}{}", group ? kGroupPrefix : "", url->ToString());
    if (!names.insert(name).second)
      return absl::InvalidArgumentError(fmt::format("--backends: {} comes twice, expected each once", name));
    parsed.emplace_back(*url, group);
  }
  if (parsed.empty() || parsed.size() > limits::kRouterBackendsMax) {
    return absl::InvalidArgumentError(fmt::format("--backends: found {} URLs, expected 1 to {}",
                                                  parsed.size(), limits::kRouterBackendsMax));
  }
  std::unique_ptr<Backends> backends(new Backends(metrics, refresh_s));
  const MutexLock lock(backends->mutex_);
  for (const auto& [url, group] : parsed) {
    if (group) {
      backends->groups_.push_back(std::make_unique<Group>(backends->groups_.size(), url, backends->context_));
      backends->group_details_.emplace_back("its name is not looked up yet");
    } else {
      backends->Add(url, url.ToString(), /*of_group=*/false, /*client=*/nullptr);
    }
  }
  return backends;
}

Backends::Backends(Metrics& metrics, double refresh_s) : refresh_s_(refresh_s), context_(1) { Emit(metrics); }

Backends::~Backends() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

// Of those that there are, so that what has gone leaves no series behind.
void Backends::Emit(Metrics& metrics) {
  const auto each = [this](auto&& emit) {
    for (const MemberPtr& member : All()) emit(member->name, balancer_.StateOf(member->number));
  };
  metrics.Expose(GaugeId::kRouterBackendUp, [each](SampleSink sink) {
    each([&](const std::string& name, const BackendState& state) {
      if (!state.leaving) sink({name}, state.health == BackendHealth::kReady ? 1 : 0);
    });
  });
  metrics.Expose(GaugeId::kRouterRequestsRunning, [each](SampleSink sink) {
    each([&](const std::string& name, const BackendState& state) { sink({name}, state.running); });
  });
  metrics.Expose(CounterId::kRouterRequests, [each](SampleSink sink) {
    each([&](const std::string& name, const BackendState& state) {
      for (size_t by = 0; by < kPlacedByCount; ++by) {
        if (state.placed[by] > 0)
          sink({name, PlacedByName(static_cast<PlacedBy>(by))}, static_cast<double>(state.placed[by]));
      }
    });
  });
  metrics.Expose(CounterId::kRouterRetries, [each](SampleSink sink) {
    each([&](const std::string& name, const BackendState& state) {
      if (state.retries > 0) sink({name}, static_cast<double>(state.retries));
    });
  });
  metrics.OnScrape(
      [this, &metrics] { metrics.Set(GaugeId::kRouterPrefixes, static_cast<double>(balancer_.prefixes())); });
}

void Backends::Watch() {
  NUMOE_CHECK(!thread_.joinable()) << "watched once";
  for (const MemberPtr& member : All()) asio::post(context_, [this, member] { Look(member); });
  for (const auto& group : groups_) asio::post(context_, [this, one = group.get()] { LookUp(*one); });
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "watch");
    context_.run();
  });
}

Backends::MemberPtr Backends::Find(int backend) const {
  const MutexLock lock(mutex_);
  const auto it = members_.find(backend);
  return it == members_.end() ? nullptr : it->second.member;
}

std::vector<Backends::MemberPtr> Backends::All() const {
  const MutexLock lock(mutex_);
  std::vector<MemberPtr> all;
  for (const auto& [number, entry] : members_) all.push_back(entry.member);
  return all;
}

Backends::MemberPtr Backends::Add(const net::Url& url, std::string name, bool of_group,
                                  std::shared_ptr<net::HttpClient> client) {
  const auto member = std::make_shared<Member>(balancer_.Add(), url, std::move(name), of_group, context_);
  const bool is_new = members_.emplace(member->number, Entry{member, std::move(client)}).second;
  NUMOE_CHECK(is_new) << member->name;
  return member;
}

std::string Backends::NameOf(int backend) const {
  const MemberPtr member = Find(backend);
  return member == nullptr ? "a backend that is no more" : member->name;
}

std::shared_ptr<net::HttpClient> Backends::ClientOf(int backend) const {
  const MutexLock lock(mutex_);
  const auto it = members_.find(backend);
  return it == members_.end() ? nullptr : it->second.client;
}

void Backends::Lose(int backend, const std::string& why) {
  if (const MemberPtr member = Find(backend)) Hear(*member, BackendHealth::kOut, why);
}

std::string Backends::Missing() const {
  std::string missing;
  const auto add = [&](const std::string& name, const std::string& detail) {
    missing += fmt::format("{}{}: {}", missing.empty() ? "" : "; ", name, detail);
  };
  for (const MemberPtr& member : All()) {
    const BackendState state = balancer_.StateOf(member->number);
    if (state.health != BackendHealth::kReady) add(member->name, state.detail);
  }
  const MutexLock lock(mutex_);
  for (const auto& group : groups_) {
    const std::string& detail = group_details_[group->number];
    if (!detail.empty()) add(group->name, detail);
  }
  return missing;
}

double Backends::Now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
}

void Backends::Hear(const Member& member, BackendHealth health, const std::string& detail) {
  const auto before = balancer_.Hear(member.number, health, detail, Now());
  if (before && *before != health)
    LogInfo("backend {} is {}{}{}", member.name, HealthName(health), detail.empty() ? "" : ": ",
            Printable(detail));
}

void Backends::Wait(const MemberPtr& member) {
  if (member->gone) return;
  member->timer.expires_at(begun_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                        std::chrono::duration<double>(balancer_.NextLook(member->number))));
  member->timer.async_wait([this, member](boost::system::error_code cancelled) {
    if (cancelled || member->gone) return;
    // Requests may have found it gone meanwhile.
    Now() < balancer_.NextLook(member->number) ? Wait(member) : Look(member);
  });
}

void Backends::Look(const MemberPtr& member) {
  const std::shared_ptr<net::HttpClient> client = ClientOf(member->number);
  const bool believed =
      client != nullptr &&
      (member->of_group || (balancer_.StateOf(member->number).health != BackendHealth::kOut &&
                            Now() < member->named_s + limits::kRouterNameSeconds));
  believed ? Ask(member, client) : Resolve(member);
}

void Backends::Resolve(const MemberPtr& member) {
  member->resolver.async_resolve(
      member->url.host, member->url.port,
      [this, member](boost::system::error_code error, const Found& found) {
        net::HttpClient::Endpoints endpoints;
        for (const auto& entry : found) endpoints.push_back(entry.endpoint());
        // The order changes from answer to answer.
        std::sort(endpoints.begin(), endpoints.end());
        const absl::Status used = error ? absl::UnavailableError("its name is not known: " + error.message())
                                        : Use(*member, std::move(endpoints));
        if (!used.ok()) {
          Hear(*member, BackendHealth::kOut, std::string(used.message()));
          return Wait(member);
        }
        member->named_s = Now();
        Ask(member, ClientOf(member->number));
      });
}

absl::Status Backends::Use(const Member& member, net::HttpClient::Endpoints endpoints) {
  const std::shared_ptr<net::HttpClient> before = ClientOf(member.number);
  if (before != nullptr && before->endpoints() == endpoints) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::unique_ptr<net::HttpClient> client,
                   net::HttpClient::CreateAt(member.url, std::move(endpoints)));
  const MutexLock lock(mutex_);
  const auto it = members_.find(member.number);
  NUMOE_CHECK(it != members_.end()) << member.name << " has gone, and only the members of groups go";
  it->second.client = std::move(client);
  return absl::OkStatus();
}

void Backends::Ask(const MemberPtr& member, const std::shared_ptr<net::HttpClient>& client) {
  NUMOE_CHECK(client != nullptr) << member->name;
  member->status = 0;
  member->body.clear();
  net::HttpCall call{.path = "/health",
                     .connect_seconds = limits::kRouterConnectSeconds,
                     .silence_seconds = limits::kRouterLookSilenceSeconds};
  net::HttpEvents events;
  events.on_head = [member](int status) { member->status = status; };
  events.on_body = [member](std::string_view bytes) {
    if (member->body.size() + bytes.size() > limits::kHttpHeaderBytesMax)
      return absl::ResourceExhaustedError("its /health says too much");
    member->body += bytes;
    return absl::OkStatus();
  };
  // Holds the client, which outlives its exchange.
  events.on_end = [this, member, client](const absl::Status& end) {
    const HealthAnswer answer = end.ok() ? ReadHealth(member->status, member->body)
                                         : HealthAnswer{BackendHealth::kOut, std::string(end.message())};
    Hear(*member, answer.health, answer.detail);
    Wait(member);
  };
  client->Send(context_, std::move(call), std::move(events));
}

void Backends::LookUp(Group& group) {
  group.resolver.async_resolve(
      group.url.host, group.url.port, [this, &group](boost::system::error_code error, const Found& found) {
        {
          const MutexLock lock(mutex_);
          group_details_[group.number] = error ? "its name is not known: " + error.message() : "";
        }
        // Where names cannot be looked up, those that were known go on.
        if (!error) Follow(group, found);
        Part(group);
        const double again =
            group.members.empty() ? std::min(limits::kRouterLookSeconds, refresh_s_) : refresh_s_;
        group.timer.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            std::chrono::duration<double>(again)));
        group.timer.async_wait([this, &group](boost::system::error_code cancelled) {
          if (!cancelled) LookUp(group);
        });
      });
}

void Backends::Follow(Group& group, const Found& found) {
  const std::set<Endpoint> named = OfFirstFamily(found);
  for (auto& [endpoint, member] : group.members) {
    if (named.contains(endpoint) == !member->leaving) continue;
    member->leaving = !member->leaving;
    member->leaving ? balancer_.Leave(member->number) : balancer_.Return(member->number);
    LogInfo("{} {} {}", group.name, member->leaving ? "has no more" : "has again", member->name);
  }
  bool crowded = false;
  for (const Endpoint& endpoint : named) {
    if (group.members.contains(endpoint)) continue;
    crowded = balancer_.backends().size() >= limits::kRouterBackendsMax;
    if (!crowded) Join(group, endpoint);
  }
  if (crowded && !group.crowded)
    LogWarning("{} has {} addresses, and there are {} backends, as many as there may be: some are left out",
               group.name, named.size(), limits::kRouterBackendsMax);
  group.crowded = crowded;
}

void Backends::Join(Group& group, const Endpoint& endpoint) {
  net::Url at_address = group.url;
  at_address.host = endpoint.address().to_string();
  const std::string name = at_address.ToString();
  for (const MemberPtr& other : All())
    if (other->name == name) return;  // of another URL
  auto client = net::HttpClient::CreateAt(group.url, {endpoint});
  const MutexLock lock(mutex_);
  if (!client.ok()) {
    group_details_[group.number] = std::string(client.status().message());
    return;
  }
  const MemberPtr member = Add(group.url, name, /*of_group=*/true, *std::move(client));
  NUMOE_CHECK(!group.members.contains(endpoint)) << name;
  group.members.emplace(endpoint, member);
  LogInfo("{} has {}", group.name, name);
  asio::post(context_, [this, member] { Look(member); });
}

// Those that leave are forgotten once nothing runs on them.
void Backends::Part(Group& group) {
  for (auto it = group.members.begin(); it != group.members.end();) {
    const MemberPtr member = it->second;
    if (!member->leaving || !balancer_.Remove(member->number)) {
      ++it;
      continue;
    }
    NUMOE_CHECK(member->of_group && !member->gone) << member->name;
    member->gone = true;
    member->timer.cancel();
    it = group.members.erase(it);
    const std::shared_ptr<net::HttpClient> client = ClientOf(member->number);  // ends after the lock
    const MutexLock lock(mutex_);
    members_.erase(member->number);
  }
}

}  // namespace numoe::router
