#include "expert_worker/startup/worker_options.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/core_dumps.h"
#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "common/topology/number_list.h"
#include "common/transport/peer_credentials.h"

namespace numoe::worker {
namespace {

constexpr int kFirstMetricsPort = 9090, kPortMax = 65'535;
static_assert(kFirstMetricsPort + limits::kWorkersMax - 1 <= kPortMax,
              "every worker has a port by its index");
static_assert(FleetOptions{}.hung_after < FleetOptions{}.load_stalled_after, "a load is silent for longer");

// The flags as they are given. Whose text needs no reading fills in the options themselves.
struct WorkerFlags {
  WorkerOptions options;
  std::string health_listen = "none";
  std::string slice = "intermediate";
  std::string packed = "map";
  bool no_shared_memory = false;
  std::string shared_memory_group;
  std::string hugepages = "off";
  std::string format = "auto";
  std::string isa = "auto";
  std::string activations = "auto";
  int64_t drain_timeout_ms = 40'000;
  int metrics_port = -1;
  std::string pinning = "preferred";
  bool supervise = false;
  std::string worker_per = "node";
  int64_t hung_after_ms = FleetOptions{}.hung_after.count();
  int64_t load_stalled_after_ms = FleetOptions{}.load_stalled_after.count();
  bool worker_count_given = false;
  std::string probe;
};

void AddServiceFlags(Flags& flags, WorkerFlags& f) {
  flags.Add("listen", f.options.listen,
            "gRPC address: HOST:PORT or unix:PATH; with --supervise the first one's, or unix:FOLDER");
  flags.Add(
      "health-listen", f.health_listen,
      "HOST:PORT of gRPC health checks in plain text from the start on (services \"\" and live), or none");
  flags.Add(
      "ssl-certfile", f.options.tls.certificate,
      "PEM file with the certificate chain that --listen HOST:PORT shows (mutual TLS); default: no TLS");
  flags.Add("ssl-keyfile", f.options.tls.key, "PEM file with its key");
  flags.Add("ssl-ca-certs", f.options.tls.ca_certs,
            "PEM file with the CAs that coordinators' certificates are of");
  flags.AddSwitch("no-shared-memory", f.no_shared_memory, "Serve layer calls over gRPC only");
  flags.Add(
      "shared-memory-group", f.shared_memory_group,
      "Group, by name or number, whose processes may share memory with this one besides those of its own "
      "user and root, and connect to --listen unix:PATH; this process must be in it; give both ends the "
      "same; default: none");
  flags.AddSwitch("share-experts", f.options.executor.memory.shared,
                  "Let coordinators on this host map the weights, for prompts that a GPU computes itself");
  flags
      .Add("drain-timeout-ms", f.drain_timeout_ms,
           "How long coordinators that still compute are served after SIGTERM")
      .NonNegative();
  flags.Add("metrics-host", f.options.metrics_host, "Address of the Prometheus endpoint");
  flags
      .Add("metrics-port", f.metrics_port,
           fmt::format("Port of the Prometheus endpoint; -1: {} + worker-index, 0: any free one",
                       kFirstMetricsPort))
      .Range(-1, kPortMax);
}

Flag AddSliceFlags(Flags& flags, WorkerFlags& f) {
  flags.Add("slice", f.slice, "intermediate: 1/N of every expert; expert: whole experts")
      .OneOf({"intermediate", "expert"});
  flags
      .Add("worker-index", f.options.executor.slice.worker_index,
           "This worker's slice, 0 to worker-count - 1; with --supervise the first one's")
      .Range(0, limits::kWorkersMax - 1);
  return flags
      .Add("worker-count", f.options.executor.slice.worker_count,
           "Slices in all; with --supervise by default those that it starts")
      .Range(1, limits::kWorkersMax);
}

void AddComputeFlags(Flags& flags, WorkerFlags& f) {
  flags.Add("format", f.format, "How experts are held: auto (as published), " + WeightFormatNames());
  flags
      .Add("packed", f.packed,
           "Packed weights: map them from the page cache, or copy them into huge pages of the worker's nodes")
      .OneOf({"map", "copy"});
  flags
      .Add("hugepages", f.hugepages,
           "Huge pages that are reserved for the weights: 2M or 1G, refused where too few are free; off: "
           "transparent ones")
      .OneOf({"off", "2M", "1G"});
  flags.Add("isa", f.isa, "Instruction set: auto, scalar, avx2, avx512, amx");
  flags.Add("activations", f.activations,
            "auto: INT8 where many tokens share an expert, else BF16 or two INT8 rows; bf16: those always; "
            "fp32: exact and slow");
  flags.Add("threads", f.options.executor.threads,
            "Compute threads; 0: this worker's share of its node's CPUs");
  flags
      .Add(
          "numa-nodes", f.options.executor.numa_nodes,
          "NUMA nodes to live on, separated by commas (sub-NUMA clusters of a socket); none: by worker-index")
      .CommaSeparated();
}

void AddPlaceFlags(Flags& flags, WorkerFlags& f) {
  flags.Add(
      "memory-reservations", f.options.memory_reservations,
      "Folder in which the daemons of one user on this host tell each other what memory they will take: with "
      "mode 700, for this alone, the same for all of them; auto: /dev/shm/numoe-UID");
  flags
      .Add("pinning", f.pinning,
           "required: refuse to start where CPUs are of several nodes or shared with others, or where the "
           "nodes "
           "have no room for the weights; preferred: say so")
      .OneOf({"preferred", "required"});
  flags
      .Add(
          "exclusive-cpus", f.options.exclusive_cpus,
          "CPUs that were promised to this process alone (Kubernetes: its CPU request); another number found "
          "means shared ones; 0: not known")
      .Range(0, limits::kThreadsMax);
  flags.AddSwitch("supervise", f.supervise,
                  "Start a worker for each NUMA node that this process may use, and keep them running");
  flags
      .Add("worker-per", f.worker_per,
           "With --supervise: a worker for each node, or for each package (socket)")
      .OneOf({"node", "package"});
  flags
      .Add("local-workers", f.options.executor.local_workers,
           "How many of --worker-count run on this host (successive slices): they divide its nodes and CPUs. "
           "0: all of them; on a cpuset of one node, those found there. With --supervise: how many to start; "
           "0: one for each node or package")
      .Range(0, limits::kWorkersMax);
  flags
      .Add("hung-after-ms", f.hung_after_ms,
           "With --supervise: a worker that has served and does not say so for this long is killed and "
           "started again; at least what it may take to drain")
      .Positive();
  flags
      .Add("load-stalled-after-ms", f.load_stalled_after_ms,
           "With --supervise: the same for one that loads and has neither read nor made memory for this long")
      .Positive();
}

// The exit code to leave with, or -1 to go on.
int ParseFlags(int argc, char** argv, WorkerFlags& f) {
  Flags flags(
      "numoe-expert-worker",
      "NUMoE expert worker: owns a slice of the experts of one model and computes it next to its memory.");
  flags.Add("model", f.options.model,
            "Checkpoint directory (config.json, *.safetensors), .gguf file, or what numoe-pack made of one; "
            "required");
  AddServiceFlags(flags, f);
  const Flag worker_count = AddSliceFlags(flags, f);
  AddComputeFlags(flags, f);
  AddPlaceFlags(flags, f);
  flags.AddSwitch("preflight", f.options.preflight,
                  "Check this machine's settings, print what is wrong, and exit");
  flags.Add("probe", f.probe,
            "Ask the gRPC health of HOST:PORT or unix:PATH, and exit with 0 if it serves, else with 1");
  flags.AddSwitch("core-dumps", f.options.core_dumps, kCoreDumpsHelp);
  flags.Add("log-level", f.options.log.level, "debug, info, warning, error");
  flags.Add("log-format", f.options.log.format, "text or json");
  const int code = flags.Parse(argc, argv);
  f.worker_count_given = worker_count.Given();
  return code;
}

bool IsUnix(const std::string& address) { return address.rfind("unix:", 0) == 0; }

// What contradicts itself, whatever the machine.
absl::Status CheckTogether(const WorkerFlags& f) {
  const WorkerOptions& o = f.options;
  if (o.executor.memory.shared && f.no_shared_memory) {
    return absl::InvalidArgumentError(
        "--share-experts with --no-shared-memory: expected one of them, weights are shared as layer calls "
        "are");
  }
  if (f.supervise && !o.executor.numa_nodes.empty()) {
    return absl::InvalidArgumentError(
        "--numa-nodes with --supervise: the supervisor gives each worker its nodes; limit the supervisor's "
        "CPUs (cpuset, taskset) instead");
  }
  RETURN_IF_ERROR(CheckAllOrNone(o.tls));
  if (o.tls.given() && IsUnix(o.listen)) {
    return absl::InvalidArgumentError(
        fmt::format("--ssl-certfile with --listen={}: a socket is guarded by its file's permissions and "
                    "stays plain text; expected HOST:PORT, or no --ssl-certfile",
                    o.listen));
  }
  return absl::OkStatus();
}

absl::Status ReadArithmetic(const WorkerFlags& f, ExecutorOptions& executor) {
  const absl::StatusOr<Isa> isa = SelectIsa(f.isa);
  if (!isa.ok()) return Annotate(isa.status(), "--isa");
  executor.isa = *isa;
  const absl::StatusOr<Precision> precision = ParsePrecision(f.activations);
  if (!precision.ok()) return Annotate(precision.status(), "--activations");
  executor.precision = *precision;
  const absl::StatusOr<std::optional<WeightFormat>> format = ParseWeightFormatOrAuto(f.format);
  if (!format.ok()) return Annotate(format.status(), "--format");
  executor.format = *format;
  return absl::OkStatus();
}

// Whether this process has exactly the CPUs that it was promised. A promise that is not kept says nothing:
// these are the CPUs that everybody has.
bool HasPromisedCpus(int exclusive_cpus) {
  const std::optional<NumberList> cpus = ReadStatusList("/", "Cpus_allowed_list:");
  return cpus && static_cast<int>(cpus->size()) == exclusive_cpus;
}

// Which of the only two words that its flag takes.
bool IsFirst(std::string_view word, std::string_view first, std::string_view second) {
  NUMOE_CHECK(word == first || word == second) << word << ", expected " << first << " or " << second;
  return word == first;
}

absl::StatusOr<WorkerOptions> OptionsFrom(WorkerFlags f) {
  WorkerOptions& o = f.options;
  if (o.model.empty() && !o.preflight) return absl::InvalidArgumentError("--model is required; see --help");
  RETURN_IF_ERROR(CheckTogether(f));
  RETURN_IF_ERROR(ReadArithmetic(f, o.executor));
  ASSIGN_OR_RETURN(o.executor.memory.pages, ParseHugePages(f.hugepages));
  ASSIGN_OR_RETURN(o.shared_memory_group, ParseSharedMemoryGroup(f.shared_memory_group));
  if (f.health_listen != "none") o.health_listen = f.health_listen;
  o.shared_memory = !f.no_shared_memory;
  o.drain_timeout = std::chrono::milliseconds(f.drain_timeout_ms);
  o.pinning_required = IsFirst(f.pinning, "required", "preferred");
  o.executor.slice.mode =
      IsFirst(f.slice, "expert", "intermediate") ? SliceMode::kExpert : SliceMode::kIntermediate;
  o.executor.map_packed = IsFirst(f.packed, "map", "copy");
  o.executor.local_required = o.pinning_required;
  o.executor.alone = o.pinning_required || HasPromisedCpus(o.exclusive_cpus);
  if (f.supervise) {
    o.fleet = {.worker_count = f.worker_count_given ? o.executor.slice.worker_count : 0,
               .per_package = IsFirst(f.worker_per, "package", "node"),
               .hung_after = std::chrono::milliseconds(f.hung_after_ms),
               .load_stalled_after = std::chrono::milliseconds(f.load_stalled_after_ms)};
  }
  const int first_port = kFirstMetricsPort + (f.supervise ? 0 : o.executor.slice.worker_index);
  o.metrics_port = f.metrics_port == -1 ? first_port : f.metrics_port;
  NUMOE_CHECK(0 <= o.metrics_port && o.metrics_port <= kPortMax) << o.metrics_port;
  return std::move(o);
}

}  // namespace

absl::StatusOr<WorkerCommand> ReadWorkerOptions(int argc, char** argv) {
  WorkerFlags flags;
  if (const int code = ParseFlags(argc, argv, flags); code >= 0) return code;
  if (!flags.probe.empty()) return ProbeRequest{std::move(flags.probe)};
  ASSIGN_OR_RETURN(WorkerOptions options, OptionsFrom(std::move(flags)));
  return options;
}

}  // namespace numoe::worker
