// MetricsExposer: serves a daemon's metrics over HTTP on a port of their own (GET /metrics).
//
// For the expert worker, which has no other HTTP; the coordinator answers /metrics itself. Owns its listener
// and two threads until destroyed, and must be destroyed before the Metrics. UNAVAILABLE names an address it
// cannot listen on.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"

namespace prometheus {
class Exposer;
}

namespace numoe {

class MetricsExposer {
 public:
  /// Port 0: chosen by the kernel.
  static absl::StatusOr<std::unique_ptr<MetricsExposer>> Start(const Metrics& metrics,
                                                               const std::string& host, int port);
  ~MetricsExposer();

  int port() const;

 private:
  explicit MetricsExposer(std::unique_ptr<prometheus::Exposer> exposer);

  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace numoe
