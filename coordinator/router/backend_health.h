// What a backend's /health says, and its errors, read.
//
// 200 is ready. A coordinator that answers "degraded" (a worker is lost) or "stuck" takes requests that wait
// until it is well again; "starting", "draining" and what nobody knows takes none. Pure function of outside
// bytes.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/router/balancer.h"

namespace numoe::router {

struct HealthAnswer {
  BackendHealth health = BackendHealth::kOut;
  std::string detail;  // "" if it is ready
};

HealthAnswer ReadHealth(int http_status, std::string_view body);
/// The code of an error that a coordinator answers; "" if there is none.
std::string ErrorCodeOf(std::string_view body);

}  // namespace numoe::router
