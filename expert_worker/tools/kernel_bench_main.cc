// numoe-kernel-bench: what NUMoE's parts reach on this machine, beside what the machine can do. The tool an
// operator runs on new hardware. Every subcommand prints a table, or one JSON object per line with --json.
#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/kernels/kernels.h"
#include "common/observe/logging.h"
#include "expert_worker/tools/load_bench.h"
#include "expert_worker/tools/machine_limits.h"
#include "expert_worker/tools/moe_bench.h"
#include "expert_worker/tools/transport_bench.h"

int main(int argc, char** argv) {
  numoe::Flags flags("numoe-kernel-bench", "Measures what NUMoE's parts reach on this machine.",
                     numoe::FlagSources::kCommandLine);
  bool json = false;
  numoe::worker::MoeBenchOptions moe;
  numoe::Flags& transport =
      flags.Command("transport", "Shared-memory mailbox against gRPC, same payloads, pinned cores");
  numoe::Flags& limits = flags.Command("limits", "Read bandwidth and arithmetic peaks by instruction set");
  numoe::Flags& layer = flags.Command("moe", "One MoE layer through the worker's executor");
  layer.Add("shape", moe.shape, "k2, deepseek-v3, qwen3-30b, qwen3-235b; tiny: a call's own cost");
  layer.Add("experts", moe.experts, "Experts held in memory; 0: all of the model's").Range(0, 4096);
  layer.Add("of", moe.of, "Experts that tokens are routed to, of which those held compute; 0: those held")
      .Range(0, 4096);
  layer.Add("tokens", moe.tokens, "Tokens in a call, separated by commas").CommaSeparated().Range(1, 8192);
  layer.Add("format", moe.format, numoe::WeightFormatNames());
  layer.Add("isa", moe.isa, "auto, scalar, avx2, avx512, amx");
  layer.Add("routing", moe.routing, "uniform, or skewed: popular experts take most tokens (Zipf)");
  layer.Add("activations", moe.activations, "auto, bf16, fp32: as for the worker");
  layer.AddSwitch("outliers", moe.outliers, "A few channels of the activations are 20 to 50 times as large");
  layer.AddSwitch(
      "disturb", moe.disturb,
      "Also the share of the rate that is left beside a busy process on every CPU, with a CPU quota of "
      "half the CPUs, and with two threads on every CPU (holds the experts twice)");
  numoe::worker::LoadBenchOptions load;
  numoe::Flags& loading = flags.Command("load", "Loading a slice of a checkpoint, from page cache and disk");
  loading.Add("model", load.model, "Checkpoint, or packed by numoe-pack").Required();
  loading.Add("packed", load.packed, "A packed model's shards: map or copy").OneOf({"map", "copy"});
  loading.Add("format", load.format, "As for the worker");
  loading
      .Add("worker-count", load.worker_count,
           "Number of workers that share the model; worker 0's slice is loaded")
      .Range(1, 64);
  loading.Add("rounds", load.rounds, "Rounds, of which the median counts").Range(1, 99);
  for (numoe::Flags* command : {&transport, &limits, &layer, &loading}) {
    command->AddSwitch("json", json, "One JSON object per line");
    if (command == &transport) continue;
    command->Add("threads", moe.threads, "Compute threads; 0: every CPU")
        .Range(0, numoe::limits::kThreadsMax)
        .HideDefault();
  }
  if (const int code = flags.Parse(argc, argv); code >= 0) return code;
  if (!numoe::SetupLogging({.level = "warning", .program = "numoe-kernel-bench"}).ok()) return 2;
  moe.json = json;
  load.json = json;
  load.threads = moe.threads;
  if (loading.Given()) return numoe::worker::RunLoadBench(load);
  if (transport.Given()) return numoe::worker::RunTransportBench(json);
  if (limits.Given()) return numoe::worker::RunLimitsBench(moe.threads, json);
  return numoe::worker::RunMoeBench(moe);
}
