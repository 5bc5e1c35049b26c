// Routes that need no model: health, version and metrics.
//
// The same routes exist while the model is loaded and after that, because loading takes minutes and clients
// want to know what the server is doing.
#pragma once

#include <functional>

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"

namespace numoe::serving {

/// Adds GET /health and /ping (503 unless `health` returns ready), /live (503 unless `live` returns alive),
/// /version and /metrics; none of them needs a key. `metrics` outlives the server.
void AddProbeRoutes(net::UrlTable& urls, Metrics& metrics, const std::function<HealthReport()>& health,
                    const std::function<HealthReport()>& live);

/// Adds these routes for the time until the model is loaded; every other request gets 503. `doing` returns
/// one line about the progress, which /health reports; it is called by the server's threads.
void AddStartingRoutes(net::UrlTable& urls, Metrics& metrics, const std::function<std::string()>& doing);

/// Answers {"status", "detail"} with status 200 if it is ready, else 503.
void ReplyHealth(const std::shared_ptr<net::Exchange>& exchange, const HealthReport& report);

}  // namespace numoe::serving
