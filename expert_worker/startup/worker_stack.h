// WorkerStack: all parts of a serving worker, from its place on the machine to its metrics.
//
// Create opens the health port, the metrics and the address. Until the slice is loaded, the address answers
// with the progress of the load; then it serves layer calls. Serve waits for the signal that ends the
// process, and drains. Each member may use the members before it, so they are destroyed in the reverse order:
// first the metrics, which read the others, then the service, then what it serves. Main thread. An error
// names the flag, the file or the memory that prevents the start.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"
#include "common/observe/metrics_exposer.h"
#include "common/topology/host_memory.h"
#include "common/transport/tls_identity.h"
#include "common/weights/model_config.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/experts/load_progress.h"
#include "expert_worker/service/health_server.h"
#include "expert_worker/service/worker_metrics.h"
#include "expert_worker/service/worker_service.h"
#include "expert_worker/startup/shared_home.h"
#include "expert_worker/startup/worker_options.h"
#include "expert_worker/startup/worker_placement.h"

namespace numoe::worker {

class WorkerStack {
 public:
  /// Returns when the worker serves. The calling thread runs on the worker's CPUs from then on.
  static absl::StatusOr<std::unique_ptr<WorkerStack>> Create(const WorkerOptions& options);
  WorkerStack(const WorkerStack&) = delete;
  WorkerStack& operator=(const WorkerStack&) = delete;

  /// Returns after SIGINT or SIGTERM, once no coordinator computes with this worker any more, or the drain
  /// timeout is over. REQUIRES: both signals were blocked before the process had a second thread.
  void Serve();

  /// Returns the address that clients use.
  const std::string& address() const { return service_->address(); }
  int metrics_port() const { return exposer_->port(); }

 private:
  WorkerStack(const WorkerOptions& options, WorkerPlacement placement);
  absl::Status OpenPorts();
  absl::Status Load();
  absl::Status AnswerWhileLoading();
  absl::Status StartService();
  void Drain();
  WorkerServiceOptions ServiceOptions() const;

  const WorkerOptions options_;
  const WorkerPlacement placement_;
  std::shared_ptr<TlsIdentityWatch> tls_;  // null if the worker does not use TLS
  std::unique_ptr<HealthServer> health_;   // null without --health-listen
  LoadProgress progress_;
  Metrics metrics_{MetricOwner::kWorker};
  PlacementMetrics placement_metrics_{metrics_};
  MemoryReservation reservation_;
  ModelConfig config_;
  uint64_t fingerprint_ = 0;
  std::unique_ptr<ExpertExecutor> executor_;
  std::optional<SharedHome::Move> move_;  // moves the executor's threads with the home
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<MetricsExposer> exposer_;  // reads from the executor and the service
};

}  // namespace numoe::worker
