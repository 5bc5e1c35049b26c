// numoe-kernel-bench: measures the parts of NUMoE on this machine and compares them with what the machine can
// do. It is for an operator with new hardware. Every subcommand prints a table, or one JSON object per line
// with --json.
#include <cstdio>
#include <filesystem>

#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/unused_flags.h"
#include "common/kernels/kernels.h"
#include "common/observe/logging.h"
#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/tools/load_bench.h"
#include "expert_worker/tools/machine_limits.h"
#include "expert_worker/tools/moe_bench.h"
#include "expert_worker/tools/transport_bench.h"

namespace numoe::worker {
namespace {

// Refuses flags of `load` that do nothing for this kind of model.
absl::Status CheckLoadFlags(const Flags& flags, const LoadBenchOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(options.model, error)) return absl::OkStatus();  // loading reports that
  UnusedFlags unused(flags);
  if (IsPackedModel(options.model)) {
    for (const char* const flag : {"format", "worker-count"})
      unused.Add(flag,
                 "does nothing for a folder made by numoe-pack, which was packed with it; leave it out");
  } else {
    unused.Add("packed", "does nothing for a checkpoint; leave it out, or name a folder made by numoe-pack");
  }
  return unused.refusal();
}

int CheckAndRunLoad(const Flags& flags, const LoadBenchOptions& options) {
  const absl::Status used = CheckLoadFlags(flags, options);
  if (used.ok()) return RunLoadBench(options);
  std::fprintf(stderr, "numoe-kernel-bench: %s\n", std::string(used.message()).c_str());
  return 2;
}

}  // namespace
}  // namespace numoe::worker

int main(int argc, char** argv) {
  numoe::Flags flags(
      "numoe-kernel-bench",
      "Measures how fast the expert worker's parts run on this machine, compared with the machine's limits.",
      numoe::FlagSources::kCommandLine);
  bool json = false;
  numoe::worker::MoeBenchOptions moe;
  numoe::Flags& transport = flags.Command(
      "transport", "Compares the shared-memory mailbox with gRPC, with the same payloads on pinned CPUs");
  numoe::Flags& limits = flags.Command(
      "limits", "Measures the memory bandwidth and the arithmetic peak of each instruction set");
  numoe::Flags& layer = flags.Command("moe", "Measures one MoE layer in the worker's executor");
  layer.Add("shape", moe.shape,
            "Model whose layer is computed: k2, deepseek-v3, qwen3-30b, qwen3-235b, or tiny, which shows the "
            "fixed cost of a call");
  layer.Add("experts", moe.experts, "Number of experts held in memory; 0: all experts of a layer")
      .Range(0, 4096);
  layer
      .Add("of", moe.of,
           "Number of experts that tokens are routed to, a multiple of --experts; only the experts held "
           "compute. 0: the experts held")
      .Range(0, 4096);
  layer.Add("tokens", moe.tokens, "Numbers of tokens in a call, separated by commas")
      .CommaSeparated()
      .Range(1, 8192);
  layer.Add("format", moe.format, "Format of the experts: " + numoe::WeightFormatNames());
  layer.Add("isa", moe.isa, "Instruction set of the kernels: auto, scalar, avx2, avx512, amx");
  layer.Add("routing", moe.routing,
            "How tokens choose experts: uniform, or skewed (popular experts get most tokens, by Zipf's law)");
  layer.Add("activations", moe.activations,
            "Precision of the activations: auto, bf16, fp32 (see numoe-expert-worker --help)");
  layer.AddSwitch("outliers", moe.outliers,
                  "Make a few channels of the activations 20 to 50 times as large as the others");
  layer.AddSwitch(
      "disturb", moe.disturb,
      "Also measure what share of the rate is left next to a busy process on every CPU, under a quota of "
      "half of the CPUs, and with two threads on every CPU; this holds the experts in memory twice");
  numoe::worker::LoadBenchOptions load;
  numoe::Flags& loading =
      flags.Command("load", "Measures loading a slice of a model, from the page cache and from disk");
  loading.Add("model", load.model, "Checkpoint (directory or .gguf file), or a folder made by numoe-pack")
      .Required();
  loading.Add("packed", load.packed, "How a folder made by numoe-pack is loaded: map or copy")
      .OneOf({"map", "copy"});
  loading.Add("format", load.format,
              "Format of a checkpoint's experts: auto (as published), " + numoe::WeightFormatNames());
  loading
      .Add("worker-count", load.worker_count,
           "Number of slices that a checkpoint is divided into; the first one is loaded")
      .Range(1, 64);
  loading.Add("rounds", load.rounds, "Number of rounds; the median is reported").Range(1, 99);
  for (numoe::Flags* command : {&transport, &limits, &layer, &loading}) {
    command->AddSwitch("json", json, "Print the results as one JSON object per line");
    if (command == &transport) continue;
    command->Add("threads", moe.threads, "Compute threads; 0: one for each CPU that this process may use")
        .Range(0, numoe::limits::kThreadsMax);
  }
  if (const int code = flags.Parse(argc, argv); code >= 0) return code;
  if (!numoe::SetupLogging({.level = "warning", .program = "numoe-kernel-bench"}).ok()) return 2;
  moe.json = json;
  load.json = json;
  load.threads = moe.threads;
  if (loading.Given()) return numoe::worker::CheckAndRunLoad(loading, load);
  if (transport.Given()) return numoe::worker::RunTransportBench(json);
  if (limits.Given()) return numoe::worker::RunLimitsBench(moe.threads, json);
  return numoe::worker::RunMoeBench(moe);
}
