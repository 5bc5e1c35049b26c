// numoe-expert-worker: loads its slice of the experts and serves layer calls until SIGTERM.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/kernels/kernels.h"
#include "common/observe/logging.h"
#include "common/observe/metrics_exposer.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/preflight/preflight.h"
#include "expert_worker/service/listen_address.h"
#include "expert_worker/service/worker_metrics.h"
#include "expert_worker/service/worker_service.h"

namespace numoe {
namespace {

constexpr int kFirstMetricsPort = 9090;

struct WorkerFlags {
  std::string model;
  std::string listen = "127.0.0.1:7070";
  std::string slice = "intermediate";
  std::string packed = "map";
  std::string metrics_host = "127.0.0.1";
  int metrics_port = -1;  // by worker_index
  bool no_shared_memory = false;
  bool preflight = false;
  ExecutorOptions executor;
  LogOptions log{.program = "numoe-expert-worker"};
};

int ParseFlags(int argc, char** argv, WorkerFlags& f) {
  Flags flags(
      "numoe-expert-worker",
      "NUMoE expert worker: owns a slice of the experts of one model and computes it next to its memory.");
  flags.Add("model", f.model,
            "Checkpoint directory (config.json, *.safetensors), .gguf file, or what numoe-pack made of one; "
            "required");
  flags.Add("listen", f.listen, "gRPC address: HOST:PORT or unix:PATH");
  flags.Add("slice", f.slice, "intermediate: 1/N of every expert; expert: whole experts")
      ->check(CLI::IsMember({"intermediate", "expert"}));
  flags.Add("worker-index", f.executor.slice.worker_index, "This worker's slice, 0 to worker-count - 1")
      ->check(CLI::Range(0, limits::kWorkersMax - 1));
  flags.Add("worker-count", f.executor.slice.worker_count, "Slices in all")
      ->check(CLI::Range(1, limits::kWorkersMax));
  flags.Add("format", f.executor.format, "How experts are held: auto (as published), " + WeightFormatNames());
  flags
      .Add("packed", f.packed,
           "Packed weights: map them from the page cache, or copy them into huge pages of the worker's nodes")
      ->check(CLI::IsMember({"map", "copy"}));
  flags.Add("isa", f.executor.isa, "Instruction set: auto, scalar, avx2, avx512, amx");
  flags.Add("activations", f.executor.activations,
            "auto: INT8 where many tokens share an expert, else BF16 or two INT8 rows; bf16: those always; "
            "fp32: exact and slow");
  flags.Add("threads", f.executor.threads, "Compute threads; 0: this worker's share of its node's CPUs");
  flags
      .Add(
          "numa-nodes", f.executor.numa_nodes,
          "NUMA nodes to live on, separated by commas (sub-NUMA clusters of a socket); none: by worker-index")
      ->delimiter(',');
  flags.AddSwitch("no-shared-memory", f.no_shared_memory, "Serve layer calls over gRPC only");
  flags.Add("metrics-host", f.metrics_host, "Address of the Prometheus endpoint");
  flags
      .Add("metrics-port", f.metrics_port,
           fmt::format("Port of the Prometheus endpoint; -1: {} + worker-index, 0: any free one",
                       kFirstMetricsPort))
      ->check(CLI::Range(-1, 65535));
  flags.AddSwitch("preflight", f.preflight, "Check this machine's settings, print what is wrong, and exit");
  flags.Add("log-level", f.log.level, "debug, info, warning, error");
  flags.Add("log-format", f.log.format, "text or json");
  return flags.Parse(argc, argv);
}

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
  ASSIGN_OR_RETURN(loaded.executor, ExpertExecutor::Load(*checkpoint, loaded.config, options));
  loaded.fingerprint = checkpoint->Fingerprint();
  return loaded;
}

absl::Status Serve(WorkerFlags& f) {
  if (f.model.empty()) return absl::InvalidArgumentError("--model is required; see --help");
  RETURN_IF_ERROR(SetupLogging(f.log));
  RETURN_IF_ERROR(CheckListenAddress(f.listen));
  f.executor.slice.mode = f.slice == "expert" ? SliceMode::kExpert : SliceMode::kIntermediate;
  f.executor.map_packed = f.packed == "map";
  if (f.metrics_port == -1) f.metrics_port = kFirstMetricsPort + f.executor.slice.worker_index;
  LoadProgress progress;
  Metrics metrics(MetricOwner::kWorker);
  ExportProgress(metrics, progress);
  // Before the weights are there: who waits for them wants to see how far they are.
  ASSIGN_OR_RETURN(auto exposer, MetricsExposer::Start(metrics, f.metrics_host, f.metrics_port));
  f.executor.progress = &progress;
  ASSIGN_OR_RETURN(const Loaded loaded, Load(f.model, f.executor));
  const auto& [executor, config, fingerprint] = loaded;
  spdlog::info("instruction sets: {}", DescribeIsas());
  ASSIGN_OR_RETURN(const auto service,
                   WorkerService::Start(*executor, {.listen = f.listen,
                                                    .model_fingerprint = fingerprint,
                                                    .slice_by_expert = f.slice == "expert",
                                                    .worker_index = f.executor.slice.worker_index,
                                                    .worker_count = f.executor.slice.worker_count,
                                                    .hidden_size = config.hidden_size,
                                                    .num_experts = config.num_experts,
                                                    .experts_per_token = config.experts_per_token,
                                                    .description = executor->Describe(),
                                                    .shared_memory = !f.no_shared_memory,
                                                    .statistics = &executor->Statistics()}));
  ExportExecutor(metrics, *executor);
  const std::string isa(IsaName(*SelectIsa(f.executor.isa)));
  metrics.With(GaugeId::kBuildInfo, {std::string(Version()), isa}).Set(1);
  metrics.OnScrape([&] { metrics.Set(GaugeId::kExpertSessions, service->Stats().sessions); });
  spdlog::info("serving {} at {}: {}; metrics on port {}", f.model, service->address(), executor->Describe(),
               exposer->port());
  const int signal = AwaitSignal();
  spdlog::info("signal {}: draining", signal);
  service->Drain();
  exposer.reset();  // it reads from the executor and the service
  return absl::OkStatus();
}

}  // namespace
}  // namespace numoe

int main(int argc, char** argv) {
  numoe::WorkerFlags flags;
  if (const int code = numoe::ParseFlags(argc, argv, flags); code >= 0) return code;
  if (flags.preflight) {
    const std::vector<numoe::Finding> findings = numoe::Preflight();
    std::fputs(numoe::ToString(findings).c_str(), stdout);
    return std::all_of(findings.begin(), findings.end(), [](const numoe::Finding& f) { return f.good; }) ? 0
                                                                                                         : 1;
  }
  numoe::BlockSignals();
  if (const absl::Status status = numoe::Serve(flags); !status.ok()) {
    std::fprintf(stderr, "numoe-expert-worker: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  return 0;
}
