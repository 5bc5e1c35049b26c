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

// Returns the endpoints of one address family, so that a host with addresses of both is one backend and not
// two.
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
  std::vector<std::pair<net::Url, bool>> parsed;  // each URL, and whether it names a group
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

// Emits the series of the current backends only, so that a backend that was removed has none.
void Backends::Emit(Metrics& metrics) {
  const auto each = [this](auto&& emit) {
    for (const BackendPtr& backend : All()) emit(backend->name, balancer_.StateOf(backend->number));
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
      for (size_t by = 0; by < kRouteReasonCount; ++by) {
        if (state.routed[by] > 0)
          sink({name, RouteReasonName(static_cast<RouteReason>(by))}, static_cast<double>(state.routed[by]));
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
  NUMOE_CHECK(!thread_.joinable()) << "Watch is called once";
  for (const BackendPtr& backend : All()) asio::post(context_, [this, backend] { CheckHealth(backend); });
  for (const auto& group : groups_) asio::post(context_, [this, one = group.get()] { LookUp(*one); });
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "watch");
    context_.run();
  });
}

Backends::BackendPtr Backends::Find(int backend) const {
  const MutexLock lock(mutex_);
  const auto it = backends_.find(backend);
  return it == backends_.end() ? nullptr : it->second.backend;
}

std::vector<Backends::BackendPtr> Backends::All() const {
  const MutexLock lock(mutex_);
  std::vector<BackendPtr> all;
  for (const auto& [number, entry] : backends_) all.push_back(entry.backend);
  return all;
}

Backends::BackendPtr Backends::Add(const net::Url& url, std::string name, bool of_group,
                                   std::shared_ptr<net::HttpClient> client) {
  const auto backend = std::make_shared<Backend>(balancer_.Add(), url, std::move(name), of_group, context_);
  const bool is_new = backends_.emplace(backend->number, Entry{backend, std::move(client)}).second;
  NUMOE_CHECK(is_new) << backend->name;
  return backend;
}

std::string Backends::NameOf(int backend) const {
  const BackendPtr found = Find(backend);
  return found == nullptr ? "a backend that was removed" : found->name;
}

std::shared_ptr<net::HttpClient> Backends::ClientOf(int backend) const {
  const MutexLock lock(mutex_);
  const auto it = backends_.find(backend);
  return it == backends_.end() ? nullptr : it->second.client;
}

void Backends::MarkFailed(int backend, const std::string& why) {
  if (const BackendPtr found = Find(backend)) RecordHealth(*found, BackendHealth::kOut, why);
}

std::string Backends::Missing() const {
  std::string missing;
  const auto add = [&](const std::string& name, const std::string& detail) {
    missing += fmt::format("{}{}: {}", missing.empty() ? "" : "; ", name, detail);
  };
  for (const BackendPtr& backend : All()) {
    const BackendState state = balancer_.StateOf(backend->number);
    if (state.health != BackendHealth::kReady) add(backend->name, state.detail);
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

void Backends::RecordHealth(const Backend& backend, BackendHealth health, const std::string& detail) {
  const auto before = balancer_.RecordHealth(backend.number, health, detail, Now());
  if (before && *before != health)
    LogInfo("backend {} is {}{}{}", backend.name, HealthName(health), detail.empty() ? "" : ": ",
            Printable(detail));
}

void Backends::Wait(const BackendPtr& backend) {
  if (backend->gone) return;
  backend->timer.expires_at(begun_ +
                            std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                std::chrono::duration<double>(balancer_.NextCheck(backend->number))));
  backend->timer.async_wait([this, backend](boost::system::error_code cancelled) {
    if (cancelled || backend->gone) return;
    // A request may have marked it as failed meanwhile, which moves the next check.
    Now() < balancer_.NextCheck(backend->number) ? Wait(backend) : CheckHealth(backend);
  });
}

void Backends::CheckHealth(const BackendPtr& backend) {
  const std::shared_ptr<net::HttpClient> client = ClientOf(backend->number);
  const bool believed =
      client != nullptr &&
      (backend->of_group || (balancer_.StateOf(backend->number).health != BackendHealth::kOut &&
                             Now() < backend->named_s + limits::kRouterNameSeconds));
  believed ? RequestHealth(backend, client) : Resolve(backend);
}

void Backends::Resolve(const BackendPtr& backend) {
  backend->resolver.async_resolve(
      backend->url.host, backend->url.port,
      [this, backend](boost::system::error_code error, const Found& found) {
        net::HttpClient::Endpoints endpoints;
        for (const auto& entry : found) endpoints.push_back(entry.endpoint());
        // The order of the addresses changes with every DNS answer.
        std::sort(endpoints.begin(), endpoints.end());
        const absl::Status used = error ? absl::UnavailableError("its name is not known: " + error.message())
                                        : Use(*backend, std::move(endpoints));
        if (!used.ok()) {
          RecordHealth(*backend, BackendHealth::kOut, std::string(used.message()));
          return Wait(backend);
        }
        backend->named_s = Now();
        RequestHealth(backend, ClientOf(backend->number));
      });
}

absl::Status Backends::Use(const Backend& backend, net::HttpClient::Endpoints endpoints) {
  const std::shared_ptr<net::HttpClient> before = ClientOf(backend.number);
  if (before != nullptr && before->endpoints() == endpoints) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::unique_ptr<net::HttpClient> client,
                   net::HttpClient::CreateAt(backend.url, std::move(endpoints)));
  const MutexLock lock(mutex_);
  const auto it = backends_.find(backend.number);
  NUMOE_CHECK(it != backends_.end()) << backend.name
                                     << " was removed, which happens only to backends of groups";
  it->second.client = std::move(client);
  return absl::OkStatus();
}

void Backends::RequestHealth(const BackendPtr& backend, const std::shared_ptr<net::HttpClient>& client) {
  NUMOE_CHECK(client != nullptr) << backend->name;
  backend->status = 0;
  backend->body.clear();
  net::HttpCall call{.path = "/health",
                     .connect_seconds = limits::kRouterConnectSeconds,
                     .silence_seconds = limits::kRouterCheckSilenceSeconds};
  net::HttpEvents events;
  events.on_head = [backend](int status) { backend->status = status; };
  events.on_body = [backend](std::string_view bytes) {
    if (backend->body.size() + bytes.size() > limits::kHttpHeaderBytesMax)
      return absl::ResourceExhaustedError(
          fmt::format("its /health answers more than {} bytes", limits::kHttpHeaderBytesMax));
    backend->body += bytes;
    return absl::OkStatus();
  };
  // The function holds the client, which must outlive its exchange.
  events.on_end = [this, backend, client](const absl::Status& end) {
    const HealthAnswer answer = end.ok() ? ReadHealth(backend->status, backend->body)
                                         : HealthAnswer{BackendHealth::kOut, std::string(end.message())};
    RecordHealth(*backend, answer.health, answer.detail);
    Wait(backend);
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
        // If the name cannot be resolved, the backends that are known stay.
        if (!error) ApplyDnsAnswer(group, found);
        RemoveLeft(group);
        const double again =
            group.backends.empty() ? std::min(limits::kRouterCheckSeconds, refresh_s_) : refresh_s_;
        group.timer.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            std::chrono::duration<double>(again)));
        group.timer.async_wait([this, &group](boost::system::error_code cancelled) {
          if (!cancelled) LookUp(group);
        });
      });
}

void Backends::ApplyDnsAnswer(Group& group, const Found& found) {
  const std::set<Endpoint> named = OfFirstFamily(found);
  for (auto& [endpoint, backend] : group.backends) {
    if (named.contains(endpoint) == !backend->leaving) continue;
    backend->leaving = !backend->leaving;
    backend->leaving ? balancer_.Leave(backend->number) : balancer_.Return(backend->number);
    LogInfo("{} {} {}", group.name, backend->leaving ? "no longer has" : "has again", backend->name);
  }
  bool over_limit = false;
  for (const Endpoint& endpoint : named) {
    if (group.backends.contains(endpoint)) continue;
    over_limit = balancer_.backends().size() >= limits::kRouterBackendsMax;
    if (!over_limit) AddAddress(group, endpoint);
  }
  if (over_limit && !group.over_limit)
    LogWarning(
        "{} has {} addresses, and there are already {} backends, the most that are allowed: some addresses "
        "are not used",
        group.name, named.size(), limits::kRouterBackendsMax);
  group.over_limit = over_limit;
}

void Backends::AddAddress(Group& group, const Endpoint& endpoint) {
  net::Url at_address = group.url;
  at_address.host = endpoint.address().to_string();
  const std::string name = at_address.ToString();
  for (const BackendPtr& other : All())
    if (other->name == name) return;  // another URL has this address
  auto client = net::HttpClient::CreateAt(group.url, {endpoint});
  const MutexLock lock(mutex_);
  if (!client.ok()) {
    group_details_[group.number] = std::string(client.status().message());
    return;
  }
  const BackendPtr backend = Add(group.url, name, /*of_group=*/true, *std::move(client));
  NUMOE_CHECK(!group.backends.contains(endpoint)) << name;
  group.backends.emplace(endpoint, backend);
  LogInfo("{} has {}", group.name, name);
  asio::post(context_, [this, backend] { CheckHealth(backend); });
}

// Removes the backends that are leaving and on which no request is running.
void Backends::RemoveLeft(Group& group) {
  for (auto it = group.backends.begin(); it != group.backends.end();) {
    const BackendPtr backend = it->second;
    if (!backend->leaving || !balancer_.Remove(backend->number)) {
      ++it;
      continue;
    }
    NUMOE_CHECK(backend->of_group && !backend->gone) << backend->name;
    backend->gone = true;
    backend->timer.cancel();
    it = group.backends.erase(it);
    const std::shared_ptr<net::HttpClient> client =
        ClientOf(backend->number);  // destroyed after the lock is released
    const MutexLock lock(mutex_);
    backends_.erase(backend->number);
  }
}

}  // namespace numoe::router
