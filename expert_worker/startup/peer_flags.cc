#include "expert_worker/startup/peer_flags.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace numoe::worker {
namespace {

// Names of flags with which KTransformers sets the number of threads on all NUMA nodes together.
const std::vector<std::string>& TotalThreadsNames() {
  static const auto* const names = new std::vector<std::string>{"cpuinfer", "cpu-infer", "kt-cpuinfer"};
  return *names;
}

}  // namespace

void AddPeerFlags(Flags& flags) {
  flags.Alias("model", {"m", "model-path"});
  flags.Alias("threads", {"t"});
  flags.Alias("threads", TotalThreadsNames());
  flags.Instead({"host", "port"},
                "--listen sets the address for coordinators, HOST:PORT or unix:PATH; --metrics-host and "
                "--metrics-port set the address of the metrics");
  flags.Instead(
      {"kt-threadpool-count", "numa"},
      "--supervise starts one worker for each NUMA node; --numa-nodes chooses the nodes of one worker");
  flags.Instead({"kt-weight-path", "kt-amx-weight-path"},
                "--model takes the checkpoint, or a folder made by numoe-pack");
  flags.Instead({"kt-method"}, "--format chooses the format of the experts, --isa the instruction set");
  flags.Instead({"mlock", "mmap", "no-mmap"},
                "all weights are in memory once the worker serves; --packed chooses whether a folder made by "
                "numoe-pack is mapped or copied");
  flags.Instead(
      {"kt-num-gpu-experts", "num-gpu-experts", "kt-max-deferred-experts-per-token",
       "max-deferred-experts-per-token", "kt-gpu-prefill-token-threshold", "gpu-prefill-token-threshold"},
      "this is a flag of numoe-coordinator");
  flags.Instead({"tensor-parallel-size", "tp", "tp-size", "expert-parallel-size", "ep", "ep-size"},
                "--worker-count is the number of workers that divide the experts");
}

absl::Status CheckPeerFlags(const Flags& flags, bool supervise) {
  for (const std::string& name : TotalThreadsNames()) {
    if (!supervise || !flags.Typed(name)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "--{} with --supervise: in KTransformers this is the number of threads on all NUMA nodes together, "
        "but a supervisor starts several workers; give --threads, the number of each worker's threads, or "
        "leave the flag out",
        name));
  }
  return absl::OkStatus();
}

}  // namespace numoe::worker
