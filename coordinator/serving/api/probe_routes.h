// What a server tells of itself without a model: health, version and metrics.
//
// The same routes serve while the model is loaded and after; loading takes minutes, and whoever waits wants
// to know for what.
#pragma once

#include <functional>

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"

namespace numoe::serving {

/// GET /health and /ping (503 unless `health` says ready), /live (503 unless `live` says alive), /version,
/// /metrics; all without a key. `metrics` outlives the server.
void AddProbeRoutes(net::UrlTable& urls, Metrics& metrics, const std::function<HealthReport()>& health,
                    const std::function<HealthReport()>& live);

/// The probes beside which everything else is answered 503, with what `health` says, until the model is
/// loaded. `doing`: one line; asked by the server's threads.
void AddStartingRoutes(net::UrlTable& urls, Metrics& metrics, const std::function<std::string()>& doing);

/// {"status", "detail"}: 200 where it is ready, 503 where not.
void ReplyHealth(const std::shared_ptr<net::Exchange>& exchange, const HealthReport& report);

}  // namespace numoe::serving
