// MetricsExposer: serves a daemon's metrics over HTTP on a separate port (GET /metrics).
//
// It is for the expert worker, which has no other HTTP; the coordinator answers /metrics itself. One thread
// serves all connections without waiting for any of them. Each connection has a few seconds and one request,
// and if there are too many, the oldest is closed, so that no number of slow or silent clients prevents a
// scrape. It owns its listener and its thread, and must be destroyed before the Metrics. UNAVAILABLE names an
// address on which it cannot listen.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"

namespace numoe {

class MetricsExposer {
 public:
  /// Port 0 means that the kernel chooses one.
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
