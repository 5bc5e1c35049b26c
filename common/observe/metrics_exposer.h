// MetricsExposer: serves a daemon's metrics over HTTP on a port of their own (GET /metrics).
//
// For the expert worker, which has no other HTTP; the coordinator answers /metrics itself. One thread serves
// all connections without waiting for any of them: each has a few seconds and one request, and of too many
// the oldest goes, so that no number of slow or silent clients keeps a scrape away. Owns its listener and its
// thread until destroyed, and must be destroyed before the Metrics. UNAVAILABLE names an address it cannot
// listen on.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"

namespace numoe {

class MetricsExposer {
 public:
  /// Port 0: chosen by the kernel.
  static absl::StatusOr<std::unique_ptr<MetricsExposer>> Start(const Metrics& metrics,
                                                               const std::string& host, int port);
  ~MetricsExposer();

  int port() const { return port_; }

 private:
  class Loop;
  MetricsExposer(std::unique_ptr<Loop> loop, int port);

  const std::unique_ptr<Loop> loop_;
  const int port_;
  std::thread thread_;
};

}  // namespace numoe
