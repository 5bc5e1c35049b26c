#include "coordinator/router/backends.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/weights/json_reader.h"
#include "coordinator/router/backend_health.h"

namespace numoe {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

const char* HealthName(BackendHealth health) {
  constexpr const char* kNames[] = {"ready", "degraded", "out"};
  return kNames[static_cast<size_t>(health)];
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backends>> Backends::Create(const std::vector<std::string>& urls,
                                                           Metrics& metrics) {
  std::vector<Url> parsed;
  for (const std::string& text : urls) {
    absl::StatusOr<Url> url = ParseUrl(text);
    if (!url.ok()) return Annotate(url.status(), "--backends");
    for (const Url& other : parsed) {
      if (other.ToString() == url->ToString())
        return absl::InvalidArgumentError(
            fmt::format("--backends: {} comes twice, expected each once", url->ToString()));
    }
    parsed.push_back(*std::move(url));
  }
  if (parsed.empty() || parsed.size() > limits::kRouterBackendsMax) {
    return absl::InvalidArgumentError(fmt::format("--backends: found {} URLs, expected 1 to {}",
                                                  parsed.size(), limits::kRouterBackendsMax));
  }
  std::unique_ptr<Backends> backends(new Backends(parsed));
  metrics.OnScrape([&metrics, all = backends.get()] {
    for (int i = 0; i < all->size(); ++i) {
      const BackendState state = all->balancer_.StateOf(i);
      metrics.With(GaugeId::kRouterBackendUp, {all->NameOf(i)}).Set(state.health == BackendHealth::kReady);
      metrics.With(GaugeId::kRouterRequestsRunning, {all->NameOf(i)}).Set(state.running);
    }
    metrics.Set(GaugeId::kRouterPrefixes, static_cast<double>(all->balancer_.prefixes()));
  });
  return backends;
}

Backends::Backends(const std::vector<Url>& urls) : balancer_(static_cast<int>(urls.size())), context_(1) {
  for (const Url& url : urls) members_.push_back(std::make_unique<Member>(url, context_));
}

Backends::~Backends() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void Backends::Watch() {
  for (int i = 0; i < size(); ++i) asio::post(context_, [this, i] { Look(i); });
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "watch");
    context_.run();
  });
}

std::shared_ptr<HttpClient> Backends::ClientOf(int backend) const {
  const std::lock_guard lock(mutex_);
  return members_[static_cast<size_t>(backend)]->client;
}

void Backends::Lose(int backend, const std::string& why) { Hear(backend, BackendHealth::kOut, why); }

std::string Backends::Missing() const {
  std::string missing;
  for (int i = 0; i < size(); ++i) {
    const BackendState state = balancer_.StateOf(i);
    if (state.health != BackendHealth::kReady)
      missing += fmt::format("{}{}: {}", missing.empty() ? "" : "; ", NameOf(i), state.detail);
  }
  return missing;
}

double Backends::Now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
}

void Backends::Hear(int backend, BackendHealth health, const std::string& detail) {
  const BackendHealth before = balancer_.StateOf(backend).health;
  balancer_.Hear(backend, health, detail, Now());
  if (before != health)
    spdlog::info("backend {} is {}{}{}", NameOf(backend), HealthName(health), detail.empty() ? "" : ": ",
                 Printable(detail));
}

void Backends::Wait(int backend) {
  asio::steady_timer& timer = members_[static_cast<size_t>(backend)]->timer;
  timer.expires_at(begun_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                std::chrono::duration<double>(balancer_.NextLook(backend))));
  timer.async_wait([this, backend](boost::system::error_code cancelled) {
    if (cancelled) return;
    // Requests may have found it gone meanwhile.
    Now() < balancer_.NextLook(backend) ? Wait(backend) : Look(backend);
  });
}

void Backends::Look(int backend) {
  const Member& member = *members_[static_cast<size_t>(backend)];
  const std::shared_ptr<HttpClient> client = ClientOf(backend);
  const bool believed = client != nullptr && balancer_.StateOf(backend).health != BackendHealth::kOut &&
                        Now() < member.named_s + limits::kRouterNameSeconds;
  believed ? Ask(backend, client) : Resolve(backend);
}

void Backends::Resolve(int backend) {
  Member& member = *members_[static_cast<size_t>(backend)];
  member.resolver.async_resolve(
      member.url.host, member.url.port,
      [this, backend, &member](boost::system::error_code error, const tcp::resolver::results_type& found) {
        HttpClient::Endpoints endpoints;
        for (const auto& entry : found) endpoints.push_back(entry.endpoint());
        // The order changes from answer to answer.
        std::sort(endpoints.begin(), endpoints.end());
        const absl::Status used = error ? absl::UnavailableError("its name is not known: " + error.message())
                                        : Use(member, std::move(endpoints));
        if (!used.ok()) {
          Hear(backend, BackendHealth::kOut, std::string(used.message()));
          return Wait(backend);
        }
        member.named_s = Now();
        Ask(backend, ClientOf(backend));
      });
}

absl::Status Backends::Use(Member& member, HttpClient::Endpoints endpoints) {
  if (member.client != nullptr && member.client->endpoints() == endpoints) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> client,
                   HttpClient::CreateAt(member.url, std::move(endpoints)));
  const std::lock_guard lock(mutex_);
  member.client = std::move(client);
  return absl::OkStatus();
}

void Backends::Ask(int backend, const std::shared_ptr<HttpClient>& client) {
  Member& member = *members_[static_cast<size_t>(backend)];
  member.status = 0;
  member.body.clear();
  HttpCall call{.path = "/health",
                .connect_seconds = limits::kRouterConnectSeconds,
                .silence_seconds = limits::kRouterLookSilenceSeconds};
  HttpEvents events;
  events.on_head = [&member](int status) { member.status = status; };
  events.on_body = [&member](std::string_view bytes) {
    if (member.body.size() + bytes.size() > limits::kHttpHeaderBytesMax)
      return absl::ResourceExhaustedError("its /health says too much");
    member.body += bytes;
    return absl::OkStatus();
  };
  // Holds the client, which outlives its exchange.
  events.on_end = [this, backend, client, &member](const absl::Status& end) {
    const HealthAnswer answer = end.ok() ? ReadHealth(member.status, member.body)
                                         : HealthAnswer{BackendHealth::kOut, std::string(end.message())};
    Hear(backend, answer.health, answer.detail);
    Wait(backend);
  };
  client->Send(context_, std::move(call), std::move(events));
}

}  // namespace numoe
