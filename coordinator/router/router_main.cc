// numoe-router: one port in front of several coordinators; sends each request to the best of them.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/core_dumps.h"
#include "common/base/descriptors.h"
#include "common/base/flags.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/base/unused_flags.h"
#include "common/base/version.h"
#include "common/observe/logging.h"
#include "coordinator/net/http/server.h"
#include "coordinator/net/http/server_flags.h"
#include "coordinator/router/backends.h"
#include "coordinator/router/router_limits.h"
#include "coordinator/router/router_service.h"

namespace numoe::router {
namespace {

struct RouterFlags {
  std::vector<std::string> backends;
  int64_t dns_refresh_ms = static_cast<int64_t>(1000 * limits::kRouterGroupSeconds);
  std::string port_file;
  net::AccessOptions access;
  net::ServerOptions server{.threads = 4};
  int64_t drain_timeout_ms = 30'000;
  bool core_dumps = false;
  LogOptions log{.program = "numoe-router"};
  absl::Status unused;             // refuses a flag that changes nothing
  std::vector<std::string> notes;  // to log: flags of the environment or the file that change nothing
};

void FindUnused(const Flags& flags, RouterFlags& f) {
  UnusedFlags unused(flags);
  net::FindUnusedServerFlags(f.access, unused);
  const auto followed = [](const std::string& url) { return url.rfind("dns+", 0) == 0; };
  if (std::none_of(f.backends.begin(), f.backends.end(), followed)) {
    unused.Add(
        "dns-refresh-ms",
        "does nothing without a backend whose URL begins with dns+, because no other host name is looked "
        "up again; leave it out, or write dns+http://HOST:PORT in --backends");
  }
  f.unused = unused.refusal();
  f.notes = unused.notes();
}

int ParseRouterFlags(int argc, char** argv, RouterFlags& f) {
  Flags flags("numoe-router",
              "NUMoE router: one port in front of several coordinators that share the same expert workers.");
  flags
      .Add("backends", f.backends,
           "URLs of all coordinators, separated by commas: http://HOST:PORT is one coordinator, "
           "dns+http://HOST:PORT one for every address that HOST resolves to, followed as they change")
      .CommaSeparated()
      .Required();
  flags
      .Add("dns-refresh-ms", f.dns_refresh_ms,
           "Milliseconds between two lookups of the host name of each dns+ backend")
      .Positive();
  net::AddServerFlags(flags, {f.server, f.access, f.port_file});
  flags
      .Add("drain-timeout-ms", f.drain_timeout_ms,
           "Milliseconds that running requests may still take after SIGTERM before they are ended")
      .NonNegative();
  flags.AddSwitch("core-dumps", f.core_dumps, kCoreDumpsHelp);
  flags.Add("log-level", f.log.level, kLogLevelHelp);
  flags.Add("log-format", f.log.format, "Format of log lines: text or json");
  const int code = flags.Parse(argc, argv);
  if (code < 0) FindUnused(flags, f);
  return code;
}

// Waits for a signal, and then until the running requests are answered or the drain timeout is over.
void AwaitEnd(const RouterFlags& f, RouterService& service, net::Server& server) {
  const int signal = AwaitSignal();
  LogInfo("signal {}: draining for at most {} ms; another signal ends it at once", signal,
          f.drain_timeout_ms);
  service.Drain();
  const ScopedDeadlySignals at_once;
  if (!server.Finish(f.drain_timeout_ms)) LogWarning("requests still running at the drain timeout are ended");
}

// `no_dumps` is the result of ForbidCoreDumps.
absl::Status Serve(const RouterFlags& f, const absl::Status& no_dumps) {
  RETURN_IF_ERROR(SetupLogging(f.log));
  RETURN_IF_ERROR(f.unused);
  for (const std::string& note : f.notes) LogWarning("{}", note);
  if (!no_dumps.ok()) LogWarning("{}", std::string(no_dumps.message()));
  RETURN_IF_ERROR(net::CheckServerFlags(f.server));
  RETURN_IF_ERROR(net::CheckPortFile(f.port_file));
  Metrics metrics(MetricOwner::kRouter);
  metrics.With(GaugeId::kBuildInfo, {std::string(Version()), "none"}).Set(1);
  ASSIGN_OR_RETURN(const auto backends,
                   Backends::Create(f.backends, metrics, static_cast<double>(f.dns_refresh_ms) / 1e3));
  ASSIGN_OR_RETURN(const auto access, net::Access::Create(f.access));
  RouterService service(*backends, metrics);
  net::UrlTable urls;
  service.Register(urls);
  ASSIGN_OR_RETURN(auto server, net::Server::Create(urls, *access, metrics, f.server));
  backends->Watch();
  RETURN_IF_ERROR(server->Start());
  const absl::Status told = net::WritePort(f.port_file, server->port());
  if (told.ok()) {
    LogInfo("serving {} on {}", fmt::join(f.backends, ","), server->Where());
    AwaitEnd(f, service, *server);
  }
  // The server's connections refer to the service and the backends, so the server ends first.
  server->Stop();
  service.Stop();
  server.reset();
  return told;
}

}  // namespace
}  // namespace numoe::router

int main(int argc, char** argv) {
  numoe::router::RouterFlags flags;
  if (const int code = numoe::router::ParseRouterFlags(argc, argv, flags); code >= 0) return code;
  const absl::Status no_dumps = flags.core_dumps ? absl::OkStatus() : numoe::ForbidCoreDumps();
  numoe::BlockSignals();
  numoe::RaiseDescriptorLimit();
  if (const absl::Status status = numoe::router::Serve(flags, no_dumps); !status.ok()) {
    std::fprintf(stderr, "numoe-router: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  return 0;
}
