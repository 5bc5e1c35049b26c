// numoe-gpu-bench: measures the CUDA device on this machine's card and compares it with the card's limits.
// With the flag --json it prints one JSON object per line. tests/gpu/run.sh runs all parts.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "common/base/check.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/observe/logging.h"
#include "coordinator/clients/bench/gpu/gpu_bench.h"
#include "coordinator/execution/device/cuda/cuda_runtime.h"

namespace numoe::clients {
namespace {

constexpr int kHybridLayers = 9;  // one dense layer and eight with experts
constexpr int kHybridExperts = 48;
constexpr int kHybridVocabulary = 1024;  // small, because the output head is not measured
constexpr int kOverlapContext = 8192;    // before the prompt's step

void Print(const nlohmann::ordered_json& line, bool json) {
  if (json) {
    std::puts(line.dump().c_str());
  } else {
    for (const auto& [key, value] : line.items()) {
      const std::string text = value.is_number_float() ? fmt::format("{:.4g}", value.get<double>())
                               : value.is_string()     ? value.get<std::string>()
                                                       : value.dump();
      std::fputs(fmt::format("{}={}  ", key, text).c_str(), stdout);
    }
    std::puts("");
  }
  std::fflush(stdout);
}

nlohmann::ordered_json LimitsLine(const execution::cuda::DeviceFacts& facts, const GpuLimits& limits) {
  return {{"op", "limits"},
          {"gpu", facts.name},
          {"read_gb_per_s", limits.read_gb_per_s},
          {"copy_gb_per_s", limits.copy_gb_per_s},
          {"to_device_gb_per_s", limits.to_device_gb_per_s},
          {"from_device_gb_per_s", limits.from_device_gb_per_s},
          {"bf16_tflops", limits.bf16_tflops}};
}

absl::Status Run(const std::string& part, int ordinal, bool json) {
  const BenchReport report = [json](const nlohmann::ordered_json& line) { Print(line, json); };
  StepSizes step{.config = K2Config(61, 384)};
  const bool computes = part == "hybrid" || part == "overlap";
  if (computes) {
    step.config = K2Config(kHybridLayers, kHybridExperts);
    step.config.vocab_size = kHybridVocabulary;
    if (part == "overlap") step.context = kOverlapContext;
  }
  const ModelConfig& config = step.config;
  std::unique_ptr<BenchWorker> worker;  // started before there are threads
  if (part == "handover" || part == "step" || computes) {
    const int spare = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) - 1;  // the last CPU drives the device
    ASSIGN_OR_RETURN(worker,
                     BenchWorker::Start({.socket = fmt::format("/tmp/numoe-gpu-bench-{}.sock", getpid()),
                                         .hidden = config.hidden_size,
                                         .experts = config.num_experts,
                                         .experts_per_token = config.experts_per_token,
                                         .width = computes ? config.moe_intermediate_size : 0,
                                         .threads = std::max(1, spare)}));
  }
  ASSIGN_OR_RETURN(auto runtime, execution::cuda::OpenCudaRuntime(ordinal));
  if (part == "driver") return BenchDriver(*runtime, {}, report);
  GpuLimits limits;
  {
    ASSIGN_OR_RETURN(BenchContext context, BenchContext::Create(*runtime, {}, report));
    limits = context.limits();
    report(LimitsLine(runtime->facts(), limits));
    if (part == "attention") return BenchAttention(context, {});
    if (part == "experts") return BenchExperts(context, {});
    if (part == "fetch") return BenchFetch(context, {});
    if (part == "handover") return BenchHandover(context, *worker, {});
  }
  if (part == "step") return BenchStep(std::move(runtime), limits, *worker, step, report);
  if (part == "hybrid") return BenchHybrid(std::move(runtime), limits, *worker, step, report);
  if (part == "overlap") return BenchOverlap(std::move(runtime), limits, *worker, step, report);
  NUMOE_CHECK_EQ(part, "limits") << "the flag takes the known parts only";
  return absl::OkStatus();
}

}  // namespace
}  // namespace numoe::clients

int main(int argc, char** argv) {
  numoe::Flags flags("numoe-gpu-bench", "Measures how fast NUMoE's CUDA device runs on this machine's GPU.",
                     numoe::FlagSources::kCommandLine);
  bool json = false;
  int ordinal = 0;
  std::string part;
  flags
      .AddPositional(
          "part", part,
          "What to measure: driver, limits, attention, experts, fetch, handover, step, hybrid, overlap")
      .Required()
      .OneOf({"driver", "limits", "attention", "experts", "fetch", "handover", "step", "hybrid", "overlap"});
  flags.AddSwitch("json", json, "Print the results as one JSON object per line");
  flags.Add("gpu", ordinal, "Number of the GPU to use").Range(0, 63);
  if (const int code = flags.Parse(argc, argv); code >= 0) return code;
  if (!numoe::SetupLogging({.level = "warning", .program = "numoe-gpu-bench"}).ok()) return 2;
  const absl::Status status = numoe::clients::Run(part, ordinal, json);
  if (status.ok()) return 0;
  std::fprintf(stderr, "numoe-gpu-bench: %s\n", std::string(status.message()).c_str());
  return 2;
}
