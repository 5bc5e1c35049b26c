#include "expert_worker/preflight/preflight.h"

#include <fmt/format.h>

#include <cstring>
#include <iterator>

#include "common/kernels/kernels.h"
#include "common/threading/thread_binding.h"
#include "common/topology/node_memory.h"
#include "common/topology/topology.h"
#include "common/weights/range_reader.h"

namespace numoe {
namespace {

std::string Percent(std::optional<double> share) {
  return share ? fmt::format("{:.0f}%", 100 * *share) : "an unknown share";
}

// What the kernel says counts less than what it does: writes some memory from the node's CPUs and looks where
// it is.
Finding TryMemory(const NumaNode& node) {
  constexpr size_t kTrialBytes = size_t{64} << 20;
  const ScopedThreadBinding binding(node.cpus);
  const absl::StatusOr<NodeMemory> block = NodeMemory::Allocate(kTrialBytes);
  MemorySpans memory;
  if (block.ok()) {
    std::memset(block->data(), 1, block->size());
    memory.push_back(block->bytes());
  }
  const std::optional<double> local = LocalShare(memory, {node.os_index});
  const std::optional<double> huge = HugePageShare(memory);
  const bool good = local.value_or(1) > 0.9 && huge.value_or(1) > 0.9;
  return {"local_memory", good,
          fmt::format("64 MiB written from node {}: {} on the node, {} in huge pages", node.os_index,
                      Percent(local), Percent(huge)),
          good ? ""
               : "free memory on that node (see its memory above), allow huge pages, or restart the machine "
                 "if its memory is in pieces"};
}

void CheckTopology(std::vector<Finding>& findings) {
  const absl::StatusOr<Topology> topology = DetectTopology();
  if (!topology.ok()) {
    findings.push_back({"topology", false, "topology: " + std::string(topology.status().message()),
                        "give this process CPUs and memory of one node (cpuset, numactl)"});
    return;
  }
  for (const NumaNode& node : topology->nodes) {
    findings.push_back({"topology", true,
                        fmt::format("node {}: {} CPUs, {:.1f} GiB", node.os_index, node.cpus.size(),
                                    static_cast<double>(node.memory_bytes) / (1 << 30)),
                        ""});
    findings.push_back(TryMemory(node));
  }
  for (const std::string& warning : topology->warnings) {
    // Settings have a finding of their own.
    if (warning.find("numa_balancing") == std::string::npos)
      findings.push_back({"topology", false, "topology: " + warning,
                          "widen the cpuset, or leave the node to another worker"});
  }
}

}  // namespace

std::vector<Finding> Preflight(const PinningRequest& pinning, std::optional<uint64_t> weight_bytes) {
  std::vector<Finding> findings;
  CheckTopology(findings);
  findings.push_back({"isa", true, "instruction sets: " + DescribeIsas(), ""});
  findings.push_back({"io_uring", true,
                      MakeUringQueue(1) != nullptr
                          ? "weights are read by io_uring"
                          : "weights are read by threads: the kernel or the container forbids io_uring",
                      ""});
  const auto append = [&](std::vector<Finding> more) {
    findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  };
  append(CheckPinning("/", pinning));
  append(CheckSettings("/"));
  if (weight_bytes) append(CheckMemoryFor("/", *weight_bytes));
  return findings;
}

std::string ToString(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings)
    text +=
        f.good ? fmt::format("ok     {}\n", f.what) : fmt::format("check  {}\n       {}\n", f.what, f.advice);
  return text;
}

}  // namespace numoe
