// WorkerStack: everything that a serving worker is made of, from its place on the machine to its metrics.
//
// Create opens the health port, the metrics and the address, which says how far the load is until the slice
// is there and layer calls are served; Serve waits for the signal that ends the process and drains. The
// members stand in the order in which each needs those before it, so the destructor ends them from the last:
// first whoever reads (metrics), then whoever serves, then what is served. Main thread. Errors name the flag,
// the file or the memory that is in the way.
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
#include "expert_worker/startup/worker_place.h"

namespace numoe::worker {

class WorkerStack {
 public:
  /// Once it returns the worker serves. The calling thread runs on the worker's CPUs from here on.
  static absl::StatusOr<std::unique_ptr<WorkerStack>> Create(const WorkerOptions& options);
  WorkerStack(const WorkerStack&) = delete;
  WorkerStack& operator=(const WorkerStack&) = delete;

  /// Until SIGINT or SIGTERM comes and the coordinators have gone, or the drain's time is over. REQUIRES:
  /// both were blocked before the process had a second thread.
  void Serve();

  /// As clients reach it.
  const std::string& address() const { return service_->address(); }
  int metrics_port() const { return exposer_->port(); }

 private:
  WorkerStack(const WorkerOptions& options, WorkerPlace place);
  absl::Status OpenPorts();
  absl::Status Load();
  absl::Status AnswerWhileLoading();
  absl::Status StartService();
  void Drain();
  WorkerServiceOptions ServiceOptions() const;

  const WorkerOptions options_;
  const WorkerPlace place_;
  std::shared_ptr<TlsIdentityWatch> tls_;  // null: plain text
  std::unique_ptr<HealthServer> health_;   // null: none was asked for
  LoadProgress progress_;
  Metrics metrics_{MetricOwner::kWorker};
  PlaceMetrics place_metrics_{metrics_};
  MemoryReservation reservation_;
  ModelConfig config_;
  uint64_t fingerprint_ = 0;
  std::unique_ptr<ExpertExecutor> executor_;
  std::optional<SharedHome::Move> move_;  // the executor's threads follow the home
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<MetricsExposer> exposer_;  // reads from the executor and the service
};

}  // namespace numoe::worker
