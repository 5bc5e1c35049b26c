// numoe-expert-worker: loads its slice of the experts and serves layer calls until SIGTERM; with --supervise
// it starts a worker for each NUMA node instead.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <thread>

#include "common/base/core_dumps.h"
#include "common/base/log.h"
#include "common/base/random_id.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/kernels/kernels.h"
#include "common/observe/logging.h"
#include "common/observe/metrics_exposer.h"
#include "common/topology/topology.h"
#include "common/transport/call_codec.h"
#include "common/transport/grpc_log.h"
#include "common/transport/ring_segment.h"
#include "common/transport/tls_identity.h"
#include "common/transport/transport_limits.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/experts/expert_formats.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/experts/worker_home.h"
#include "expert_worker/preflight/preflight.h"
#include "expert_worker/preflight/worker_memory.h"
#include "expert_worker/service/health_probe.h"
#include "expert_worker/service/health_server.h"
#include "expert_worker/service/listen_address.h"
#include "expert_worker/service/worker_metrics.h"
#include "expert_worker/service/worker_service.h"
#include "expert_worker/shared_home.h"
#include "expert_worker/supervisor/child_process.h"
#include "expert_worker/supervisor/supervisor.h"
#include "expert_worker/worker_flags.h"

namespace numoe {
namespace {

// Sockets in no file, which end with their process: where a supervisor asks workers that speak TLS.
constexpr std::string_view kAbstractPrefix = "unix-abstract:";

struct Loaded {
  std::unique_ptr<ExpertExecutor> executor;
  ModelConfig config;
  uint64_t fingerprint = 0;
};

// Takes minutes, and leaves nothing behind that an end would have to tidy up.
absl::StatusOr<Loaded> Load(const std::string& model, const ExecutorOptions& options) {
  const ScopedDeadlySignals deadly;
  Loaded loaded;
  if (IsPackedModel(model)) {
    ASSIGN_OR_RETURN(const PackedModel packed, ReadManifest(model));
    ASSIGN_OR_RETURN(loaded.executor, ExpertExecutor::LoadPacked(packed, options));
    loaded.config = packed.config;
    loaded.fingerprint = packed.model_fingerprint;
    return loaded;
  }
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(model));
  ASSIGN_OR_RETURN(loaded.config, ReadModelConfig(model));
  ASSIGN_OR_RETURN(loaded.fingerprint, checkpoint->Fingerprint());
  ASSIGN_OR_RETURN(loaded.executor, ExpertExecutor::Load(*checkpoint, loaded.config, options));
  return loaded;
}

struct SliceBytes {
  uint64_t weights = 0;
  uint64_t of_free_memory = 0;  // as loading asks for it: reserved huge pages are other memory
};

// What the slice takes, without loading it.
absl::StatusOr<SliceBytes> SliceBytesOf(const WorkerFlags& f) {
  const SliceSpec& spec = f.executor.slice;
  ModelConfig config;
  std::vector<ExpertFormats> formats;
  const bool from_free_memory = f.executor.memory.pages == HugePages::kTransparent;
  std::optional<uint64_t> mapped;
  if (IsPackedModel(f.model)) {
    ASSIGN_OR_RETURN(PackedModel packed, ReadManifest(f.model));
    if (f.executor.map_packed && from_free_memory) {
      ASSIGN_OR_RETURN(mapped, MappedBytesToTake(packed, spec));
    }
    config = std::move(packed.config);
    formats = std::move(packed.formats);
  } else {
    ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(f.model));
    ASSIGN_OR_RETURN(config, ReadModelConfig(f.model));
    ASSIGN_OR_RETURN(formats, ChooseFormats(*checkpoint, config, spec, f.executor.format));
  }
  ASSIGN_OR_RETURN(const SliceLayout layout, SliceLayout::Plan(config, spec, std::move(formats)));
  const uint64_t weights = SliceMemory::BlockBytes(layout, config);
  return SliceBytes{.weights = weights, .of_free_memory = from_free_memory ? mapped.value_or(weights) : 0};
}

// Of one session through shared memory, which is planned for; a host with more coordinators needs more.
absl::StatusOr<uint64_t> RingBytesOf(const WorkerFlags& f) {
  if (f.no_shared_memory) return 0;
  ModelConfig config;
  if (IsPackedModel(f.model)) {
    ASSIGN_OR_RETURN(PackedModel packed, ReadManifest(f.model));
    config = std::move(packed.config);
  } else {
    ASSIGN_OR_RETURN(config, ReadModelConfig(f.model));
  }
  return RingSegment::BytesFor(
      RequestBytes(limits::kCallTokensMax, config.experts_per_token, config.hidden_size));
}

PinningRequest PinningFor(const WorkerFlags& f) {
  return {.nodes = f.executor.numa_nodes, .any_nodes = f.supervise, .exclusive_cpus = f.exclusive_cpus};
}

// An address that nobody else on this host has, up to the worker's number.
std::string PrivateHealth() {
  return fmt::format("{}numoe-health-{}-{:016x}-", kAbstractPrefix, getpid(), RandomId());
}

absl::StatusOr<FleetPlan> PlanFleetFor(const WorkerFlags& f, const Topology& topology) {
  return PlanFleet(topology, {.local_workers = f.executor.local_workers,
                              .first_index = f.executor.slice.worker_index,
                              .worker_count = f.worker_count_given ? f.executor.slice.worker_count : 0,
                              .per_package = f.worker_per == "package",
                              .own_home = f.pinning == "required",
                              .listen = f.listen,
                              .metrics_port = f.metrics_port,
                              .health = f.tls.given() ? PrivateHealth() : ""});
}

// The nodes of each worker that these flags would start here; sets how many slices there are.
absl::StatusOr<std::vector<std::vector<int>>> HomesFor(WorkerFlags& f) {
  const absl::StatusOr<Topology> topology = DetectTopology();
  if (!topology.ok()) return std::vector<std::vector<int>>(1);  // which is a finding of its own
  std::vector<std::vector<int>> homes;
  if (f.supervise) {
    ASSIGN_OR_RETURN(const FleetPlan plan, PlanFleetFor(f, *topology));
    f.executor.slice.worker_count = plan.worker_count;
    for (const FleetWorker& worker : plan.workers) homes.push_back(worker.nodes);
  } else {
    ASSIGN_OR_RETURN(Placement home, PlanPlacement(*topology, RequestFor(f.executor)));
    homes.push_back(std::move(home.nodes));
  }
  return homes;
}

WorkerNeeds NeedsOf(const WorkerFlags& f, uint64_t weight_bytes, uint64_t ring_bytes) {
  return {.weight_bytes = weight_bytes,
          .worker_count = f.executor.slice.worker_count,
          .ring_bytes = ring_bytes,
          .packed = IsPackedModel(f.model)};
}

absl::StatusOr<bool> RunPreflight(WorkerFlags& f) {
  RETURN_IF_ERROR(SetupLogging(f.log));  // stdout is the findings'
  std::vector<WorkerOnNodes> workers;
  std::vector<Finding> reserved;
  if (!f.model.empty()) {
    RETURN_IF_ERROR(CompleteFlags(f));
    ASSIGN_OR_RETURN(const std::vector<std::vector<int>> homes, HomesFor(f));
    ASSIGN_OR_RETURN(const SliceBytes slice, SliceBytesOf(f));
    ASSIGN_OR_RETURN(const uint64_t ring_bytes, RingBytesOf(f));
    const HugePages pages = f.executor.memory.pages;
    const WorkerNeeds needs = NeedsOf(f, slice.of_free_memory, ring_bytes);
    for (const std::vector<int>& nodes : homes) {
      workers.push_back({.needs = needs, .nodes = nodes});
      if (pages == HugePages::kTransparent) continue;
      for (Finding& finding : CheckReservedPagesFor("/", pages, slice.weights, nodes))
        reserved.push_back(std::move(finding));
    }
  }
  std::vector<Finding> findings = Preflight(PinningFor(f), workers, f.memory_reservations);
  findings.insert(findings.end(), reserved.begin(), reserved.end());
  std::fputs(ToString(findings).c_str(), stdout);
  return std::all_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.good; });
}

// Holds the worker's nodes where it must be alone on them.
absl::StatusOr<std::optional<NodeClaim>> CheckPlace(const WorkerFlags& f) {
  if (f.pinning != "required") return std::nullopt;
  RETURN_IF_ERROR(RequirePinning(CheckPinning("/", PinningFor(f))));
  if (f.supervise) return std::nullopt;  // its workers take theirs
  ASSIGN_OR_RETURN(NodeClaim claim, NodeClaim::Take(f.executor.numa_nodes.empty() ? NodesOfOwnCpus("/")
                                                                                  : f.executor.numa_nodes));
  return claim;
}

std::vector<Finding> FindSettings(const WorkerFlags& f) {
  std::vector<Finding> findings = CheckPinning("/", PinningFor(f));
  findings.push_back(CheckPolicies("/"));
  const bool policies_allowed = findings.back().good;
  for (Finding& finding : CheckSettings("/", policies_allowed)) findings.push_back(std::move(finding));
  return findings;
}

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

absl::StatusOr<std::unique_ptr<HealthServer>> StartHealth(const WorkerFlags& f) {
  if (f.health_listen == "none") return nullptr;
  // gRPC would say what is wrong in a line of its own.
  if (f.health_listen.rfind(kAbstractPrefix, 0) != 0)
    RETURN_IF_ERROR(CheckPortAddress("--health-listen", f.health_listen, "none"));
  return HealthServer::Start(f.health_listen);
}

// Null: no TLS.
absl::StatusOr<std::shared_ptr<TlsIdentityWatch>> OpenTls(const WorkerFlags& f) {
  if (!f.tls.given()) return nullptr;
  return TlsIdentityWatch::Open(f.tls, TlsRole::kServer);
}

void ExportTls(Metrics& metrics, const std::shared_ptr<TlsIdentityWatch>& tls) {
  if (tls == nullptr) return;
  prometheus::Gauge& expiry = metrics.With(GaugeId::kCertificateExpiry, {"ssl-certfile"});
  metrics.OnScrape([tls, &expiry] { expiry.Set(static_cast<double>(tls->Current()->expires_s)); });
}

// Not ready from now on, and no new sessions. Coordinators that got the same signal finish their requests
// with this worker: it stays until they are gone or compute nothing any more.
void Drain(WorkerService& service, std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook{20};
  constexpr std::chrono::seconds kIdle{3};  // a layer of the longest prompt's attention takes less
  const ScopedDeadlySignals at_once;
  service.Drain();
  const Clock::time_point deadline = Clock::now() + timeout;
  uint64_t calls = service.Stats().calls;
  for (Clock::time_point last_call = Clock::now(); Clock::now() < deadline;) {
    const WorkerServiceStats stats = service.Stats();
    if (stats.calls != calls) last_call = Clock::now();
    calls = stats.calls;
    if (stats.sessions == 0 || Clock::now() - last_call > kIdle) return;
    std::this_thread::sleep_for(kLook);
  }
  LogWarning("coordinators that still compute at the drain timeout lose this worker");
}

WorkerServiceOptions ServiceOptions(const WorkerFlags& f, const Loaded& loaded) {
  return {
      .listen = f.listen,
      .model_fingerprint = loaded.fingerprint,
      .slice_by_expert = f.slice == "expert",
      .worker_index = f.executor.slice.worker_index,
      .worker_count = f.executor.slice.worker_count,
      .hidden_size = loaded.config.hidden_size,
      .num_experts = loaded.config.num_experts,
      .experts_per_token = loaded.config.experts_per_token,
      .description = loaded.executor->Describe(),
      .arithmetic = fmt::format("--format={} --activations={}", loaded.executor->Weights().format_names,
                                f.executor.activations),
      .shared_memory = !f.no_shared_memory,
      .ring_group = f.ring_group,
      .tls = f.tls,
      .shared_experts = f.executor.memory.shared ? loaded.executor->Weights().Directory() : SharedExperts{},
      .experts_fd = loaded.executor->Weights().memory.fd(),
      .callers = &loaded.executor->Callers(),
      .nodes = f.executor.home->nodes,
      .statistics = &loaded.executor->Statistics()};
}

absl::Status Serve(WorkerFlags& f) {
  RETURN_IF_ERROR(CheckListenAddress(f.listen, f.ring_group));
  ASSIGN_OR_RETURN(const auto claim, CheckPlace(f));
  const std::vector<Finding> findings = FindSettings(f);
  // From here on every thread and what it writes is on the worker's nodes: nothing may start before.
  ASSIGN_OR_RETURN(const auto home, SharedHome::Find(LimitByQuota(RequestFor(f.executor))));
  f.executor.home = home->placement();
  SettleAt(*f.executor.home);
  home->Follow();
  ASSIGN_OR_RETURN(const auto tls, OpenTls(f));
  ASSIGN_OR_RETURN(const auto health, StartHealth(f));
  LoadProgress progress;
  Metrics metrics(MetricOwner::kWorker);
  PlaceMetrics places(metrics);
  ExportProgress(metrics, progress);
  ExportRestarts(metrics);
  ExportTls(metrics, tls);
  ExportPreflight(metrics, findings);
  // Before the weights are there: who waits for them wants to see how far they are.
  ASSIGN_OR_RETURN(auto exposer, MetricsExposer::Start(metrics, f.metrics_host, f.metrics_port));
  f.executor.progress = &progress;
  MemoryReservation reservation;
  f.executor.ask_for_memory = [&](uint64_t weight_bytes) -> absl::Status {
    ASSIGN_OR_RETURN(const uint64_t ring_bytes, RingBytesOf(f));
    ASSIGN_OR_RETURN(reservation, ReserveWorkerMemory(NeedsOf(f, weight_bytes, ring_bytes),
                                                      f.memory_reservations, f.log.program));
    return absl::OkStatus();
  };
  std::optional<ProgressReport> report(std::in_place, [&] { return progress.moves(); });
  ASSIGN_OR_RETURN(const Loaded loaded, Load(f.model, f.executor));
  const ExpertExecutor& executor = *loaded.executor;
  const SharedHome::Move move(*home, *loaded.executor);
  LogInfo("instruction sets: {}", DescribeIsas());
  ASSIGN_OR_RETURN(const auto service, WorkerService::Start(*loaded.executor, ServiceOptions(f, loaded)));
  for (const Finding& finding : findings)
    if (!finding.good) LogInfo("preflight: {}; {}", finding.what, finding.advice);
  ExportExecutor(metrics, executor);
  places.Follow(executor, [&] { return service->Stats().rings_local; });
  const std::string isa(IsaName(*SelectIsa(f.executor.isa)));
  metrics.With(GaugeId::kBuildInfo, {std::string(Version()), isa}).Set(1);
  metrics.OnScrape([&] { metrics.Set(GaugeId::kExpertSessions, service->Stats().sessions); });
  LogInfo("serving {} at {}: {}; metrics on port {}", f.model, service->address(), executor.Describe(),
          exposer->port());
  if (health != nullptr) health->Set("", true);
  report.reset();
  const int signal = AwaitSignal();
  LogInfo("signal {}: draining for at most {} ms; another signal ends it at once", signal,
          f.drain_timeout_ms);
  if (health != nullptr) health->Set("", false);
  Drain(*service, std::chrono::milliseconds(f.drain_timeout_ms));
  exposer.reset();  // it reads from the executor and the service
  return absl::OkStatus();
}

absl::Status Supervise(const WorkerFlags& f, int argc, char** argv) {
  RETURN_IF_ERROR(OpenTls(f).status());
  ASSIGN_OR_RETURN(const auto claim, CheckPlace(f));
  ASSIGN_OR_RETURN(const Topology topology, DetectTopology());
  ASSIGN_OR_RETURN(const FleetPlan plan, PlanFleetFor(f, topology));
  for (const FleetWorker& worker : plan.workers)
    RETURN_IF_ERROR(CheckListenAddress(worker.listen, f.ring_group));
  ASSIGN_OR_RETURN(const auto health, StartHealth(f));
  for (const std::string& warning : topology.warnings) LogWarning("topology: {}", warning);
  for (const std::string& note : topology.notes) LogInfo("topology: {}", note);
  LogInfo("supervising {}", plan.ToString());
  // A worker that stays past its own timeout is stuck.
  constexpr std::chrono::milliseconds kGrace{10'000};
  const std::chrono::milliseconds drain_max = std::chrono::milliseconds(f.drain_timeout_ms) + kGrace;
  std::error_code error;
  return Supervise(plan,
                   {.program = std::filesystem::read_symlink("/proc/self/exe", error).string(),
                    .arguments = {argv + 1, argv + argc},
                    .restarts = {},
                    .hangs = {.serving = std::max(std::chrono::milliseconds(f.hung_after_ms), drain_max),
                              .loading = std::chrono::milliseconds(f.load_stalled_after_ms)},
                    .drain_max = drain_max},
                   health.get());
}

// Flags, files and machines that another try does not mend.
bool IsFinal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
}

int Fail(const absl::Status& status) {
  const std::string line(status.message());
  if (!ReportToSupervisor(line, IsFinal(status)))
    std::fprintf(stderr, "numoe-expert-worker: %s\n", line.c_str());
  return 2;
}

int Probe(const std::string& address) {
  constexpr std::chrono::milliseconds kPatience{3'000};
  const absl::Status status = HealthProbe(address).Ask("", kPatience);
  if (!status.ok()) std::fprintf(stderr, "numoe-expert-worker: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

// `no_dumps`: of ForbidCoreDumps.
absl::Status Run(WorkerFlags& f, const absl::Status& no_dumps, int argc, char** argv) {
  RETURN_IF_ERROR(CompleteFlags(f));
  RETURN_IF_ERROR(SetupLogging(f.log));
  if (!no_dumps.ok()) LogWarning("{}", std::string(no_dumps.message()));
  RouteGrpcLog();
  return f.supervise ? Supervise(f, argc, argv) : Serve(f);
}

}  // namespace
}  // namespace numoe

int main(int argc, char** argv) {
  numoe::WorkerFlags flags;
  if (const int code = numoe::ParseWorkerFlags(argc, argv, flags); code >= 0) return code;
  if (!flags.probe.empty()) return numoe::Probe(flags.probe);
  if (flags.preflight) {
    const absl::StatusOr<bool> good = numoe::RunPreflight(flags);
    return good.ok() ? (*good ? 0 : 1) : numoe::Fail(good.status());
  }
  const absl::Status no_dumps = flags.core_dumps ? absl::OkStatus() : numoe::ForbidCoreDumps();
  numoe::BlockSignals();
  if (flags.supervise) numoe::BlockChildSignals();
  const absl::Status status = numoe::Run(flags, no_dumps, argc, argv);
  return status.ok() ? 0 : numoe::Fail(status);
}
