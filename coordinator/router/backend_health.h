// Reads what a backend answers to /health, and the codes of its errors.
//
// Status 200 is kReady. A coordinator that answers "degraded" (it has lost a worker) or "stuck" takes
// requests, which wait until it works again; one that answers "starting", "draining" or anything else takes
// none. Pure functions of bytes from outside.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/router/balancer.h"

namespace numoe::router {

struct HealthAnswer {
  BackendHealth health = BackendHealth::kOut;
  std::string detail;  // "" for kReady
};

HealthAnswer ReadHealth(int http_status, std::string_view body);
/// Returns the code of a coordinator's error; "" if it has none.
std::string ErrorCodeOf(std::string_view body);

}  // namespace numoe::router
