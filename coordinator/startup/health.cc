#include "coordinator/startup/health.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"

namespace numoe::startup {
namespace {

// An engine that has work but finishes no step for this long is stuck, even if everything else looks well.
// The first prompt of the largest model may take half a minute.
constexpr double kStuckSeconds = 120;

double CallSecondsMax() { return static_cast<double>(execution::LinkOptions().call_deadline_ms) / 1e3; }

}  // namespace

serving::HealthReport Health(const std::vector<execution::WorkerStatus>& workers,
                             const engine::EngineStats& engine, bool draining) {
  if (draining) return {"draining", "running requests finish, new ones are refused"};
  std::string down;
  for (const execution::WorkerStatus& worker : workers) {
    if (!worker.up)
      down += fmt::format("{}worker {}: {}", down.empty() ? "" : "; ", worker.address, worker.error);
  }
  if (!down.empty()) return {"degraded", down};
  if (engine.stalled_s > kStuckSeconds)
    return {"stuck", fmt::format("no step has ended for {:.0f} s although there is work", engine.stalled_s)};
  return {"ready", ""};
}

serving::HealthReport Liveness(const execution::CallActivity& calls, const engine::EngineStats& engine,
                               double deadline_s) {
  NUMOE_CHECK_GT(deadline_s, 0);
  // turn_s is 0 while the engine is idle.
  const double still_s = std::min(engine.turn_s, calls.seconds);
  if (still_s <= deadline_s + (calls.in_call ? CallSecondsMax() : 0)) return {"alive", ""};
  return {"stuck", fmt::format("the engine has made no progress for {:.0f} s although there is work{}",
                               still_s, calls.in_call ? " and its call's deadline has passed" : "")};
}

}  // namespace numoe::startup
