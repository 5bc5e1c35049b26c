#include "coordinator/serving/api/probe_routes.h"

#include "common/base/version.h"
#include "coordinator/net/http/metrics_text.h"
#include "coordinator/serving/api/sse.h"

namespace numoe::serving {

using nlohmann::ordered_json;

namespace {

void Reply(const std::shared_ptr<net::Exchange>& exchange, const HealthReport& report, const char* good) {
  exchange->Reply({.status = report.status == good ? 200 : 503,
                   .body = DumpJson(ordered_json{{"status", report.status}, {"detail", report.detail}})});
}

}  // namespace

void ReplyHealth(const std::shared_ptr<net::Exchange>& exchange, const HealthReport& report) {
  Reply(exchange, report, "ready");
}

void AddProbeRoutes(net::UrlTable& urls, Metrics& metrics, const std::function<HealthReport()>& health,
                    const std::function<HealthReport()>& live) {
  const auto add = [&](const char* path, const char* summary,
                       std::function<void(std::shared_ptr<net::Exchange>)> handle,
                       const char* method = "GET") {
    urls.Add(
        {.method = method, .pattern = path, .summary = summary, .handle = std::move(handle), .open = true});
  };
  const auto tell = [health](const std::shared_ptr<net::Exchange>& e) { ReplyHealth(e, health()); };
  add("/health", "Whether requests are served, and if not, the reason", tell);
  for (const char* method : {"GET", "POST"}) add("/ping", "The same for SageMaker", tell, method);
  add("/live", "Whether the process makes progress; if not, it needs a restart",
      [live](const std::shared_ptr<net::Exchange>& e) { Reply(e, live(), "alive"); });
  add("/version", "The program's version", [](const std::shared_ptr<net::Exchange>& e) {
    e->Reply({.body = DumpJson(ordered_json{{"version", Version()}})});
  });
  add("/metrics", "Metrics as Prometheus text or OpenMetrics",
      [text = std::make_shared<net::MetricsText>(metrics)](const std::shared_ptr<net::Exchange>& e) {
        e->Reply(text->ReplyTo(e->request()));
      });
}

void AddStartingRoutes(net::UrlTable& urls, Metrics& metrics, const std::function<std::string()>& doing) {
  AddProbeRoutes(
      urls, metrics,
      [doing] {
        return HealthReport{"starting", doing()};
      },
      [doing] {
        return HealthReport{"alive", doing()};
      });
  urls.RefuseOthers({.http_status = 503,
                     .message = "the server is starting and has no model yet; GET /health says what it does",
                     .type = "service_unavailable",
                     .code = "starting"});
}

}  // namespace numoe::serving
