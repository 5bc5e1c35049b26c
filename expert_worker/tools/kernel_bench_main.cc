// numoe-kernel-bench: what NUMoE's parts reach on this machine, beside what the machine can do. The tool an
// operator runs on new hardware. Every subcommand prints a table, or one JSON object per line with --json.
#include "CLI/CLI.hpp"
#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/kernels/kernels.h"
#include "common/observe/logging.h"
#include "expert_worker/tools/load_bench.h"
#include "expert_worker/tools/machine_limits.h"
#include "expert_worker/tools/moe_bench.h"
#include "expert_worker/tools/transport_bench.h"

int main(int argc, char** argv) {
  CLI::App app("Measures what NUMoE's parts reach on this machine.", "numoe-kernel-bench");
  app.require_subcommand(1);
  bool json = false;
  numoe::MoeBenchOptions moe;
  const CLI::App* transport =
      app.add_subcommand("transport", "Shared-memory ring against gRPC, same payloads, pinned cores");
  const CLI::App* limits =
      app.add_subcommand("limits", "Read bandwidth and arithmetic peaks by instruction set");
  CLI::App* layer = app.add_subcommand("moe", "One MoE layer through the worker's executor");
  layer->add_option("--shape", moe.shape, "k2, deepseek-v3, qwen3-30b, qwen3-235b; tiny: a call's own cost")
      ->capture_default_str();
  layer->add_option("--experts", moe.experts, "Experts held in memory; 0: all of the model's")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  layer
      ->add_option("--of", moe.of,
                   "Experts that tokens are routed to, of which those held compute; 0: those held")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  layer->add_option("--tokens", moe.tokens, "Tokens in a call, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 8192))
      ->capture_default_str();
  layer->add_option("--format", moe.format, numoe::WeightFormatNames())->capture_default_str();
  layer->add_option("--isa", moe.isa, "auto, scalar, avx2, avx512, amx")->capture_default_str();
  layer->add_option("--routing", moe.routing, "uniform, or skewed: popular experts take most tokens (Zipf)")
      ->capture_default_str();
  layer->add_option("--activations", moe.activations, "auto, bf16, fp32: as for the worker")
      ->capture_default_str();
  layer->add_flag("--outliers", moe.outliers,
                  "A few channels of the activations are 20 to 50 times as large");
  layer->add_flag(
      "--disturb", moe.disturb,
      "Also the share of the rate that is left beside a busy process on every CPU, with a CPU quota of "
      "half the CPUs, and with two threads on every CPU (holds the experts twice)");
  numoe::LoadBenchOptions load;
  CLI::App* loading = app.add_subcommand("load", "Loading a slice of a checkpoint, from page cache and disk");
  loading->add_option("--model", load.model, "Checkpoint, or packed by numoe-pack")->required();
  loading->add_option("--packed", load.packed, "A packed model's shards: map or copy")
      ->check(CLI::IsMember({"map", "copy"}))
      ->capture_default_str();
  loading->add_option("--format", load.format, "As for the worker")->capture_default_str();
  loading->add_option("--worker-count", load.worker_count, "The slice of worker 0 of so many")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  loading->add_option("--rounds", load.rounds, "Rounds, of which the median counts")
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  for (CLI::App* command : app.get_subcommands({})) {
    command->add_flag("--json", json, "One JSON object per line");
    if (command == transport) continue;
    command->add_option("--threads", moe.threads, "Compute threads; 0: every CPU")
        ->check(CLI::Range(0, numoe::limits::kThreadsMax));
  }
  if (const int code = numoe::ParseCommandLine(app, argc, argv); code >= 0) return code;
  if (!numoe::SetupLogging({.level = "warning", .program = "numoe-kernel-bench"}).ok()) return 2;
  moe.json = json;
  load.json = json;
  load.threads = moe.threads;
  if (*loading) return numoe::RunLoadBench(load);
  if (*transport) return numoe::RunTransportBench(json);
  if (*limits) return numoe::RunLimitsBench(moe.threads, json);
  return numoe::RunMoeBench(moe);
}
