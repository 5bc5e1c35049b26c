#include "expert_worker/worker_flags.h"

#include <fmt/format.h>

#include <optional>

#include "common/base/core_dumps.h"
#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "common/topology/number_list.h"
#include "common/transport/peer_credentials.h"

namespace numoe {
namespace {

constexpr int kFirstMetricsPort = 9090;

void AddServiceFlags(Flags& flags, WorkerFlags& f) {
  flags.Add("listen", f.listen,
            "gRPC address: HOST:PORT or unix:PATH; with --supervise the first one's, or unix:FOLDER");
  flags.Add(
      "health-listen", f.health_listen,
      "HOST:PORT of gRPC health checks in plain text from the start on (services \"\" and live), or none");
  flags.Add(
      "ssl-certfile", f.tls.certificate,
      "PEM file with the certificate chain that --listen HOST:PORT shows (mutual TLS); default: no TLS");
  flags.Add("ssl-keyfile", f.tls.key, "PEM file with its key");
  flags.Add("ssl-ca-certs", f.tls.ca_certs, "PEM file with the CAs that coordinators' certificates are of");
  flags.AddSwitch("no-shared-memory", f.no_shared_memory, "Serve layer calls over gRPC only");
  flags.Add(
      "ring-group", f.ring_group_name,
      "Group, by name or number, whose processes may share memory with this one besides those of its own "
      "user and root, and connect to --listen unix:PATH; this process must be in it; give both ends the "
      "same; default: none");
  flags.AddSwitch("share-experts", f.executor.memory.shared,
                  "Let coordinators on this host map the weights, for prompts that a GPU computes itself");
  flags
      .Add("drain-timeout-ms", f.drain_timeout_ms,
           "How long coordinators that still compute are served after SIGTERM")
      .NonNegative();
  flags.Add("metrics-host", f.metrics_host, "Address of the Prometheus endpoint");
  flags
      .Add("metrics-port", f.metrics_port,
           fmt::format("Port of the Prometheus endpoint; -1: {} + worker-index, 0: any free one",
                       kFirstMetricsPort))
      .Range(-1, 65535);
}

Flag AddSliceFlags(Flags& flags, WorkerFlags& f) {
  flags.Add("slice", f.slice, "intermediate: 1/N of every expert; expert: whole experts")
      .OneOf({"intermediate", "expert"});
  flags
      .Add("worker-index", f.executor.slice.worker_index,
           "This worker's slice, 0 to worker-count - 1; with --supervise the first one's")
      .Range(0, limits::kWorkersMax - 1);
  return flags
      .Add("worker-count", f.executor.slice.worker_count,
           "Slices in all; with --supervise by default those that it starts")
      .Range(1, limits::kWorkersMax);
}

void AddComputeFlags(Flags& flags, WorkerFlags& f) {
  flags.Add("format", f.executor.format, "How experts are held: auto (as published), " + WeightFormatNames());
  flags
      .Add("packed", f.packed,
           "Packed weights: map them from the page cache, or copy them into huge pages of the worker's nodes")
      .OneOf({"map", "copy"});
  flags
      .Add("hugepages", f.hugepages,
           "Huge pages that are reserved for the weights: 2M or 1G, refused where too few are free; off: "
           "transparent ones")
      .OneOf({"off", "2M", "1G"});
  flags.Add("isa", f.executor.isa, "Instruction set: auto, scalar, avx2, avx512, amx");
  flags.Add("activations", f.executor.activations,
            "auto: INT8 where many tokens share an expert, else BF16 or two INT8 rows; bf16: those always; "
            "fp32: exact and slow");
  flags.Add("threads", f.executor.threads, "Compute threads; 0: this worker's share of its node's CPUs");
  flags
      .Add(
          "numa-nodes", f.executor.numa_nodes,
          "NUMA nodes to live on, separated by commas (sub-NUMA clusters of a socket); none: by worker-index")
      .CommaSeparated();
}

void AddPlaceFlags(Flags& flags, WorkerFlags& f) {
  flags.Add(
      "memory-reservations", f.memory_reservations,
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
          "exclusive-cpus", f.exclusive_cpus,
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
      .Add("local-workers", f.executor.local_workers,
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

}  // namespace

int ParseWorkerFlags(int argc, char** argv, WorkerFlags& f) {
  Flags flags(
      "numoe-expert-worker",
      "NUMoE expert worker: owns a slice of the experts of one model and computes it next to its memory.");
  flags.Add("model", f.model,
            "Checkpoint directory (config.json, *.safetensors), .gguf file, or what numoe-pack made of one; "
            "required");
  AddServiceFlags(flags, f);
  const Flag worker_count = AddSliceFlags(flags, f);
  AddComputeFlags(flags, f);
  AddPlaceFlags(flags, f);
  flags.AddSwitch("preflight", f.preflight, "Check this machine's settings, print what is wrong, and exit");
  flags.Add("probe", f.probe,
            "Ask the gRPC health of HOST:PORT or unix:PATH, and exit with 0 if it serves, else with 1");
  flags.AddSwitch("core-dumps", f.core_dumps, kCoreDumpsHelp);
  flags.Add("log-level", f.log.level, "debug, info, warning, error");
  flags.Add("log-format", f.log.format, "text or json");
  const int code = flags.Parse(argc, argv);
  f.worker_count_given = worker_count.Given();
  return code;
}

absl::Status CompleteFlags(WorkerFlags& f) {
  if (f.model.empty()) return absl::InvalidArgumentError("--model is required; see --help");
  f.executor.slice.mode = f.slice == "expert" ? SliceMode::kExpert : SliceMode::kIntermediate;
  f.executor.map_packed = f.packed == "map";
  f.executor.local_required = f.pinning == "required";
  // A promise that is not kept says nothing: these are the CPUs that everybody has.
  const std::optional<NumberList> cpus = ReadStatusList("/", "Cpus_allowed_list:");
  const bool kept = cpus && static_cast<int>(cpus->size()) == f.exclusive_cpus;
  f.executor.alone = f.executor.local_required || kept;
  ASSIGN_OR_RETURN(f.executor.memory.pages, ParseHugePages(f.hugepages));
  if (f.executor.memory.shared && f.no_shared_memory) {
    return absl::InvalidArgumentError(
        "--share-experts with --no-shared-memory: expected one of them, weights are shared as layer calls "
        "are");
  }
  ASSIGN_OR_RETURN(f.ring_group, ParseRingGroup(f.ring_group_name));
  if (f.supervise && !f.executor.numa_nodes.empty()) {
    return absl::InvalidArgumentError(
        "--numa-nodes with --supervise: the supervisor gives each worker its nodes; limit the supervisor's "
        "CPUs (cpuset, taskset) instead");
  }
  RETURN_IF_ERROR(CheckAllOrNone(f.tls));
  if (f.tls.given() && f.listen.rfind("unix:", 0) == 0) {
    return absl::InvalidArgumentError(
        fmt::format("--ssl-certfile with --listen={}: a socket is guarded by its file's permissions and "
                    "stays plain text; "
                    "expected HOST:PORT, or no --ssl-certfile",
                    f.listen));
  }
  if (f.metrics_port == -1)
    f.metrics_port = kFirstMetricsPort + (f.supervise ? 0 : f.executor.slice.worker_index);
  return absl::OkStatus();
}

}  // namespace numoe
