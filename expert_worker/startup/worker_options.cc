#include "expert_worker/startup/worker_options.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/core_dumps.h"
#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/unused_flags.h"
#include "common/kernels/kernels.h"
#include "common/topology/number_list.h"
#include "common/transport/peer_credentials.h"
#include "common/weights/model_place.h"
#include "expert_worker/startup/peer_flags.h"

namespace numoe::worker {
namespace {

constexpr int kFirstMetricsPort = 9090, kPortMax = 65'535;
static_assert(kFirstMetricsPort + limits::kWorkersMax - 1 <= kPortMax,
              "there is a metrics port for every index");
static_assert(FleetOptions{}.hung_after < FleetOptions{}.load_stalled_after,
              "a loading worker may be silent for longer than a serving one");

// The flags as they are given. A flag whose text needs no parsing is stored in `options` directly.
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
  absl::Status unused;  // an error if a flag on the command line changes nothing
};

void AddServiceFlags(Flags& flags, WorkerFlags& f) {
  flags.Add("listen", f.options.listen,
            "Address of the gRPC service: HOST:PORT or unix:PATH. With --supervise: HOST:PORT of the first "
            "worker, from which the ports count up, or unix:FOLDER");
  flags.Add("health-listen", f.health_listen,
            "HOST:PORT that answers gRPC health checks in plain text from the start of the process, or none. "
            "Service \"\" is healthy once the worker (with --supervise: every worker) is ready, service live "
            "as long as the process answers");
  flags.Add("ssl-certfile", f.options.tls.certificate,
            "PEM file with the certificate chain that the worker presents at --listen HOST:PORT (mutual "
            "TLS); needs --ssl-keyfile and --ssl-ca-certs. Default: no TLS");
  flags.Add("ssl-keyfile", f.options.tls.key, "PEM file with the private key of --ssl-certfile");
  flags.Add(
      "ssl-ca-certs", f.options.tls.ca_certs,
      "PEM file with the certificate authorities (CAs) that the coordinators' certificates must come from");
  flags.AddSwitch("no-shared-memory", f.no_shared_memory,
                  "Serve layer calls over gRPC only, also to coordinators on this host");
  flags.Add("shared-memory-group", f.shared_memory_group,
            "Group (name or number) whose processes may share memory with the worker and connect to --listen "
            "unix:PATH, in addition to processes of its own user and of root. The worker must be a member, "
            "and the coordinators need the same flag; default: none");
  flags.AddSwitch("share-experts", f.options.executor.memory.shared,
                  "Let coordinators on this host map the expert weights, so that a GPU can compute long "
                  "prompts itself (see --gpu-prefill-token-threshold of numoe-coordinator)");
  flags
      .Add("drain-timeout-ms", f.drain_timeout_ms,
           "Milliseconds after SIGTERM during which coordinators that still compute are served")
      .NonNegative();
  flags.Add("metrics-host", f.options.metrics_host, "IP address of the Prometheus endpoint");
  flags
      .Add("metrics-port", f.metrics_port,
           fmt::format(
               "TCP port of the Prometheus endpoint; -1: {0} plus --worker-index, 0: any free port. With "
               "--supervise: the port of the first worker (-1: {0}), from which the ports count up",
               kFirstMetricsPort))
      .Range(-1, kPortMax);
}

Flag AddSliceFlags(Flags& flags, WorkerFlags& f) {
  flags
      .Add("slice", f.slice,
           "What each worker holds: intermediate (1/N of every expert) or expert (1/N of the experts, each "
           "of them complete), where N is --worker-count")
      .OneOf({"intermediate", "expert"});
  flags
      .Add("worker-index", f.options.executor.slice.worker_index,
           "Number of the slice that this worker holds, from 0 to --worker-count - 1; with --supervise the "
           "slice of the first worker")
      .Range(0, limits::kWorkersMax - 1);
  return flags
      .Add("worker-count", f.options.executor.slice.worker_count,
           "Number of slices that the model is divided into, on all hosts together. Default with "
           "--supervise: --worker-index plus the number of workers that it starts")
      .Range(1, limits::kWorkersMax);
}

void AddComputeFlags(Flags& flags, WorkerFlags& f) {
  flags.Add("format", f.format,
            "Format in which the experts are held: auto (as published), " + WeightFormatNames());
  flags
      .Add("packed", f.packed,
           "How a folder made by numoe-pack is loaded: map (use it in place in the page cache) or copy (into "
           "huge pages on the worker's NUMA nodes, which --share-experts and --hugepages need)")
      .OneOf({"map", "copy"});
  flags
      .Add("hugepages", f.hugepages,
           "Reserved huge pages that hold the weights: 2M or 1G (the worker refuses to start if too few are "
           "free), or off (transparent huge pages)")
      .OneOf({"off", "2M", "1G"});
  flags.Add("isa", f.isa,
            "Instruction set of the CPU kernels: auto (the best that this CPU supports), scalar, avx2, "
            "avx512, amx");
  flags.Add(
      "activations", f.activations,
      "Precision of the activations. auto: INT8 where many tokens share an expert, otherwise BF16 or two "
      "INT8 rows (15 bits together); bf16: the latter for any number of tokens; fp32: exact and slow");
  flags.Add("threads", f.options.executor.threads,
            "Compute threads; 0: one for each core of this worker's share of its NUMA nodes. Second "
            "hyperthreads, or one core of 8 or more, are left to the coordinator");
  flags
      .Add("numa-nodes", f.options.executor.numa_nodes,
           "NUMA nodes that the worker runs on and keeps its memory on, separated by commas, such as the "
           "sub-NUMA clusters of one socket; default: chosen by --worker-index")
      .CommaSeparated();
}

void AddPlaceFlags(Flags& flags, WorkerFlags& f) {
  flags.Add("memory-reservations", f.options.memory_reservations,
            "Folder in which all NUMoE processes of one user on this host record how much memory they will "
            "take. It must have mode 700 and be used for nothing else; auto: /dev/shm/numoe-UID");
  flags
      .Add(
          "pinning", f.pinning,
          "What happens if the worker's CPUs are on several NUMA nodes or shared with other processes, or "
          "its nodes lack memory for the weights: required (it refuses to start) or preferred (it logs that)")
      .OneOf({"preferred", "required"});
  flags
      .Add("exclusive-cpus", f.options.exclusive_cpus,
           "Number of CPUs that were promised to this process alone (in Kubernetes: its CPU request). If it "
           "finds another number, its CPUs count as shared; 0: unknown")
      .Range(0, limits::kThreadsMax);
  flags.AddSwitch(
      "supervise", f.supervise,
      "Start one worker for each NUMA node that this process may use, and restart workers that end or hang");
  flags
      .Add("worker-per", f.worker_per,
           "With --supervise: start one worker for each NUMA node (node) or for each socket (package)")
      .OneOf({"node", "package"});
  flags
      .Add("local-workers", f.options.executor.local_workers,
           "Number of workers, of --worker-count in all, that run on this host and divide its NUMA nodes and "
           "CPUs; they hold successive slices. 0: all of them or, if a cpuset leaves this worker CPUs of one "
           "node only, those that it finds on these CPUs. With --supervise: the number of workers to start; "
           "0: one for each node or socket")
      .Range(0, limits::kWorkersMax);
  flags
      .Add("hung-after-ms", f.hung_after_ms,
           "With --supervise: milliseconds without a good health answer after which a worker that has "
           "already served is killed and started again; raised to --drain-timeout-ms plus 10 s if it is less")
      .Positive();
  flags
      .Add("load-stalled-after-ms", f.load_stalled_after_ms,
           "With --supervise: milliseconds without progress (bytes read, memory allocated) after which a "
           "worker that is loading is killed and started again")
      .Positive();
}

bool IsUnix(const std::string& address) { return address.rfind("unix:", 0) == 0; }

// The supervisor starts its workers with --supervise=false and without these flags on their command lines.
// The workers still see the supervisor's environment and file, and a note about these flags would be useless
// there.
void FindUnusedSupervision(const Flags& flags, UnusedFlags& unused) {
  for (const char* const name : {"worker-per", "hung-after-ms", "load-stalled-after-ms"}) {
    if (flags.Typed(name) || !flags.Typed("supervise"))
      unused.Add(name, "does nothing without --supervise; add --supervise, or leave the flag out");
  }
}

// Records the flags that change nothing in combination with the others.
void FindUnused(const Flags& flags, WorkerFlags& f) {
  UnusedFlags unused(flags);
  if (!f.probe.empty()) {
    for (const std::string& name : flags.typed()) {
      if (name != "probe" && name != "config")
        unused.Add(name,
                   "does nothing with --probe, which only asks another process for its health; leave it out");
    }
  }
  if (!f.supervise) FindUnusedSupervision(flags, unused);
  if (f.no_shared_memory && !IsUnix(f.options.listen)) {
    unused.Add(
        "shared-memory-group",
        "does nothing with --no-shared-memory and --listen at HOST:PORT, because there is neither shared "
        "memory nor a socket file to guard; leave it out");
  }
  f.unused = unused.refusal();
  f.unused.Update(CheckPeerFlags(flags, f.supervise));
  f.options.notes = unused.notes();
}

// Returns the exit code with which the program must end, or -1 if it continues.
int ParseFlags(int argc, char** argv, WorkerFlags& f) {
  Flags flags("numoe-expert-worker",
              "NUMoE expert worker: holds one slice of a model's experts in the memory of its NUMA nodes and "
              "computes it there.");
  flags.Add(
      "model", f.options.model,
      "Model whose experts to serve: a checkpoint directory (config.json, *.safetensors), a .gguf "
      "file, a folder made by numoe-pack, or the name of a repository (ORG/NAME) in Hugging Face's cache "
      "on this host; required, except with --preflight or --probe");
  AddServiceFlags(flags, f);
  const Flag worker_count = AddSliceFlags(flags, f);
  AddComputeFlags(flags, f);
  AddPlaceFlags(flags, f);
  flags.AddSwitch("preflight", f.options.preflight,
                  "Check the settings of this machine (and with --model whether its memory suffices), print "
                  "what is wrong, and exit with 0 if nothing is, otherwise with 1");
  flags.Add("probe", f.probe,
            "Ask the gRPC health service at HOST:PORT or unix:PATH whether it serves, and exit with 0 if it "
            "does, otherwise with 1");
  flags.AddSwitch("core-dumps", f.options.core_dumps, kCoreDumpsHelp);
  flags.Add("log-level", f.options.log.level, kLogLevelHelp);
  flags.Add("log-format", f.options.log.format, "Format of log lines: text or json");
  AddPeerFlags(flags);
  const int code = flags.Parse(argc, argv);
  if (code >= 0) return code;
  f.worker_count_given = worker_count.Given();
  f.options.packed_given = flags.Given("packed");
  FindUnused(flags, f);
  return code;
}

// Refuses flags that contradict each other on any machine.
absl::Status CheckTogether(const WorkerFlags& f) {
  const WorkerOptions& o = f.options;
  if (o.executor.memory.shared && f.no_shared_memory) {
    return absl::InvalidArgumentError(
        "--share-experts with --no-shared-memory: expected only one of them, because the weights are shared "
        "through shared memory");
  }
  if (f.supervise && !o.executor.numa_nodes.empty()) {
    return absl::InvalidArgumentError(
        "--numa-nodes with --supervise: the supervisor chooses the nodes of each worker; limit the "
        "supervisor's CPUs (cpuset, taskset) instead");
  }
  RETURN_IF_ERROR(CheckAllOrNone(o.tls));
  if (o.tls.given() && IsUnix(o.listen)) {
    return absl::InvalidArgumentError(fmt::format(
        "--ssl-certfile with --listen={}: a unix socket is protected by the permissions of its file "
        "and does not use TLS; expected --listen HOST:PORT, or no --ssl-certfile",
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

// Returns whether this process may use exactly the number of CPUs that it was promised. If it may use another
// number, the promise was not kept, and its CPUs count as shared.
bool HasPromisedCpus(int exclusive_cpus) {
  const std::optional<NumberList> cpus = ReadStatusList("/", "Cpus_allowed_list:");
  return cpus && static_cast<int>(cpus->size()) == exclusive_cpus;
}

// Returns whether `word` is the first of the two words that its flag accepts.
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
  if (!o.model.empty()) {
    ASSIGN_OR_RETURN(ModelPlace place, FindModel(o.model));
    o.model = std::move(place.path);
  }
  return std::move(o);
}

}  // namespace

absl::StatusOr<WorkerCommand> ReadWorkerOptions(int argc, char** argv) {
  WorkerFlags flags;
  if (const int code = ParseFlags(argc, argv, flags); code >= 0) return code;
  RETURN_IF_ERROR(flags.unused);
  if (!flags.probe.empty()) return ProbeRequest{std::move(flags.probe)};
  ASSIGN_OR_RETURN(WorkerOptions options, OptionsFrom(std::move(flags)));
  return options;
}

}  // namespace numoe::worker
