#include "expert_worker/startup/worker_stack.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/kernels/kernels.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/service/listen_address.h"
#include "expert_worker/startup/slice_needs.h"
#include "expert_worker/startup/worker_endpoints.h"
#include "expert_worker/supervisor/child_process.h"

namespace numoe::worker {
namespace {

void ExportPreflight(Metrics& metrics, const std::vector<Finding>& findings) {
  std::map<std::string, bool> failed;
  for (const Finding& finding : findings) failed[finding.check] |= !finding.good;
  for (const auto& [check, bad] : failed) metrics.With(GaugeId::kPreflightFailed, {check}).Set(bad ? 1 : 0);
}

void ExportRestarts(Metrics& metrics) {
  const std::optional<Restarts> restarts = RestartsBySupervisor();
  if (!restarts) return;
  metrics.With(CounterId::kWorkerRestarts, {"ended"}).Increment(restarts->ended);
  metrics.With(CounterId::kWorkerRestarts, {"hung"}).Increment(restarts->hung);
}

void ExportTls(Metrics& metrics, const std::shared_ptr<TlsIdentityWatch>& tls) {
  if (tls == nullptr) return;
  prometheus::Gauge& expiry = metrics.With(GaugeId::kCertificateExpiry, {"ssl-certfile"});
  metrics.OnScrape([tls, &expiry] { expiry.Set(static_cast<double>(tls->Current()->expires_s)); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerStack>> WorkerStack::Create(const WorkerOptions& options) {
  RETURN_IF_ERROR(CheckListenAddress(options.listen, options.shared_memory_group));
  // From here on every thread, and what it writes, is on the worker's nodes. So no thread may start before
  // this.
  ASSIGN_OR_RETURN(WorkerPlacement placement, SettleWorker(options));
  auto stack = std::unique_ptr<WorkerStack>(new WorkerStack(options, std::move(placement)));
  RETURN_IF_ERROR(stack->OpenPorts());
  const ProgressReport report([&] { return stack->progress_.moves(); });
  RETURN_IF_ERROR(stack->Load());
  RETURN_IF_ERROR(stack->StartService());
  return stack;
}

WorkerStack::WorkerStack(const WorkerOptions& options, WorkerPlacement placement)
    : options_(options), placement_(std::move(placement)) {
  NUMOE_CHECK(options_.executor.isa.has_value())
      << "ReadWorkerOptions sets the instruction set, even for auto";
}

// Opens the ports before the weights are loaded, so that the progress of the load can be seen.
absl::Status WorkerStack::OpenPorts() {
  const std::string isa(IsaName(*options_.executor.isa));
  metrics_.With(GaugeId::kBuildInfo, {std::string(Version()), isa}).Set(1);
  ASSIGN_OR_RETURN(tls_, OpenTls(options_));
  ASSIGN_OR_RETURN(health_, StartHealth(options_));
  ExportProgress(metrics_, progress_);
  ExportRestarts(metrics_);
  ExportTls(metrics_, tls_);
  ExportPreflight(metrics_, placement_.findings);
  ASSIGN_OR_RETURN(exposer_, MetricsExposer::Start(metrics_, options_.metrics_host, options_.metrics_port));
  return absl::OkStatus();
}

// Takes minutes, during which signals end the process at once. It may then leave a socket file, which the
// next start replaces.
absl::Status WorkerStack::Load() {
  const ScopedDeadlySignals deadly;
  ExecutorOptions options = options_.executor;
  options.home = placement_.home->placement();
  options.progress = &progress_;
  options.ask_for_memory = [this](uint64_t weight_bytes) -> absl::Status {
    ASSIGN_OR_RETURN(const WorkerNeeds needs, NeedsOf(options_, weight_bytes));
    ASSIGN_OR_RETURN(reservation_,
                     ReserveWorkerMemory(needs, options_.memory_reservations, options_.log.program));
    return absl::OkStatus();
  };
  if (IsPackedModel(options_.model)) {
    ASSIGN_OR_RETURN(const PackedModel packed, ReadManifest(options_.model));
    config_ = packed.config;
    fingerprint_ = packed.model_fingerprint;
    RETURN_IF_ERROR(AnswerWhileLoading());
    ASSIGN_OR_RETURN(executor_, ExpertExecutor::LoadPacked(packed, options));
    return absl::OkStatus();
  }
  if (options_.packed_given) {
    LogInfo(
        "--packed changes nothing for {}, because it is not a folder made by numoe-pack; its experts are "
        "read, converted and copied into memory",
        options_.model);
  }
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(options_.model));
  ASSIGN_OR_RETURN(config_, ReadModelConfig(options_.model));
  RETURN_IF_ERROR(AnswerWhileLoading());
  ASSIGN_OR_RETURN(fingerprint_, checkpoint->Fingerprint());  // reads a sample of every tensor
  ASSIGN_OR_RETURN(executor_, ExpertExecutor::Load(*checkpoint, config_, options));
  return absl::OkStatus();
}

absl::Status WorkerStack::AnswerWhileLoading() {
  ASSIGN_OR_RETURN(service_, WorkerService::StartLoading({.listen = options_.listen,
                                                          .hidden_size = config_.hidden_size,
                                                          .shared_memory_group = options_.shared_memory_group,
                                                          .tls = options_.tls},
                                                         progress_));
  return absl::OkStatus();
}

WorkerServiceOptions WorkerStack::ServiceOptions() const {
  const ExecutorOptions& asked = options_.executor;
  const ExpertSlice& weights = executor_->Weights();
  return {.listen = options_.listen,
          .model_fingerprint = fingerprint_,
          .slice_by_expert = asked.slice.mode == SliceMode::kExpert,
          .worker_index = asked.slice.worker_index,
          .worker_count = asked.slice.worker_count,
          .hidden_size = config_.hidden_size,
          .num_experts = config_.num_experts,
          .experts_per_token = config_.experts_per_token,
          .description = executor_->Describe(),
          .numeric_formats = fmt::format("--format={} --activations={}", weights.format_names,
                                         PrecisionName(asked.precision)),
          .shared_memory = options_.shared_memory,
          .shared_memory_group = options_.shared_memory_group,
          .tls = options_.tls,
          .mapped_weights = asked.memory.shared ? weights.Directory() : MappedWeights{},
          .experts_fd = weights.memory.fd(),
          .callers = &executor_->Callers(),
          .nodes = placement_.home->placement().nodes,
          .statistics = &executor_->Statistics()};
}

absl::Status WorkerStack::StartService() {
  NUMOE_CHECK(executor_->slice() == options_.executor.slice) << "the executor has the requested slice";
  move_.emplace(*placement_.home, *executor_);
  LogInfo("instruction sets: {}", DescribeIsas());
  RETURN_IF_ERROR(service_->Serve(*executor_, ServiceOptions()));
  for (const Finding& finding : placement_.findings)
    if (!finding.good) LogInfo("preflight: {}; {}", finding.what, finding.advice);
  ExportExecutor(metrics_, *executor_);
  placement_metrics_.Follow(*executor_, [this] { return service_->Stats().mailboxes_local; });
  const SliceSpec& slice = options_.executor.slice;
  metrics_
      .With(GaugeId::kWorkerInfo,
            {service_->address(), std::to_string(slice.worker_index), std::to_string(slice.worker_count)})
      .Set(1);
  metrics_.OnScrape([this] { metrics_.Set(GaugeId::kExpertSessions, service_->Stats().sessions); });
  LogInfo("serving {} at {}: {}; metrics on port {}", options_.model, service_->address(),
          executor_->Describe(), exposer_->port());
  if (health_ != nullptr) health_->Set("", true);
  return absl::OkStatus();
}

void WorkerStack::Serve() {
  const int signal = AwaitSignal();
  LogInfo("signal {}: draining for at most {} ms; another signal ends it at once", signal,
          options_.drain_timeout.count());
  if (health_ != nullptr) health_->Set("", false);
  Drain();
}

// From now on the worker is not ready and accepts no new sessions. Coordinators that got the same signal need
// it to finish their requests, so it stays until they have left or do not compute any more.
void WorkerStack::Drain() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPeriod{20};
  constexpr std::chrono::seconds kIdle{3};  // one layer's attention takes less, even for the longest prompt
  static_assert(kPeriod < kIdle);
  const ScopedDeadlySignals at_once;
  service_->Drain();
  const Clock::time_point deadline = Clock::now() + options_.drain_timeout;
  uint64_t calls = service_->Stats().calls;
  for (Clock::time_point last_call = Clock::now(); Clock::now() < deadline;) {
    const WorkerServiceStats stats = service_->Stats();
    if (stats.calls != calls) last_call = Clock::now();
    calls = stats.calls;
    if (stats.sessions == 0 || Clock::now() - last_call > kIdle) return;
    std::this_thread::sleep_for(kPeriod);
  }
  LogWarning("the drain timeout is over; coordinators that still compute lose this worker");
}

}  // namespace numoe::worker
