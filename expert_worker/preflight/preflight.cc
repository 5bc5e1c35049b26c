#include "expert_worker/preflight/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <thread>

#include "common/base/check.h"
#include "common/kernels/kernels.h"
#include "common/threading/thread_binding.h"
#include "common/topology/available_memory.h"
#include "common/topology/memory_policy.h"
#include "common/topology/node_memory.h"
#include "common/topology/node_room.h"
#include "common/topology/number_list.h"
#include "common/topology/topology.h"
#include "common/weights/range_reader.h"

namespace numoe::worker {
namespace {

std::string Percent(std::optional<double> share) {
  return share ? fmt::format("{:.0f}%", 100 * *share) : "an unknown share";
}

// Writes some memory from the node's CPUs and reads where it is, because what the kernel does counts more
// than what it says.
Finding TryMemory(const NumaNode& node) {
  NUMOE_CHECK(!node.cpus.empty()) << "only nodes with CPUs have workers";
  constexpr size_t kTrialBytes = size_t{64} << 20;
  // If memory is missing, writing would kill this process where a cpuset allows it memory of this node only.
  const std::optional<NodeRoom> room = ReadNodeRoom("/", node.os_index);
  if (room && std::min(room->Available(), AvailableMemory()) < 2 * kTrialBytes) {
    return {"local_memory", false,
            fmt::format("{}: too little free memory to test where memory is allocated", Describe({*room})),
            "end what uses the memory of that node, including shared memory (/dev/shm, memfd)"};
  }
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
                 "if its memory is fragmented"};
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
  for (const std::string& note : topology->notes) findings.push_back({"topology", true, note, ""});
  for (const std::string& warning : topology->warnings) {
    findings.push_back({"topology", false, warning,
                        "give this process the memory of its CPUs' nodes (cpuset.mems; systemd: "
                        "AllowedMemoryNodes=; podman: --cpuset-mems), and switch on CPUs that are offline"});
  }
}

}  // namespace

Finding CheckPolicies(const std::filesystem::path& root) {
  const std::string check = "memory_policies";
  const std::vector<int> home = NodesOfOwnCpus(root);
  const NumberList mems = ReadStatusList(root, "Mems_allowed_list:").value_or(NumberList{});
  if (!mems.empty() && std::includes(home.begin(), home.end(), mems.begin(), mems.end()))
    return {check, true, "memory comes from the nodes of this process's CPUs only", ""};
  absl::Status status;
  // The policy ends with the thread that sets it, so it gets a thread of its own.
  std::thread([&] { status = SetThreadMemoryPolicy(MemoryPolicy::kLocal, {}); }).join();
  if (status.ok()) return {check, true, "this process may choose the node of its memory", ""};
  return {
      check, false,
      fmt::format("this process may not choose the node of its memory ({})", std::string(status.message())),
      "allow mbind and set_mempolicy (in containers: the capability SYS_NICE, or a seccomp profile that has "
      "them), or restrict this process to the memory of its CPUs' nodes from outside (cpuset.mems; "
      "Kubernetes: memoryManagerPolicy Static): otherwise weights are on the nodes of the threads that "
      "touch them first, as long as there is room"};
}

std::vector<Finding> Preflight(const PinningRequest& pinning, const std::vector<WorkerOnNodes>& workers,
                               const std::string& reservations) {
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
  const Finding policies = CheckPolicies("/");
  append(CheckSettings("/", policies.good));
  append({policies});
  if (!workers.empty()) append(CheckMemoryFor("/", workers, reservations));
  return findings;
}

std::string ToString(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) {
    NUMOE_CHECK(!f.check.empty() && !f.what.empty() && (!f.good || f.advice.empty())) << f.what;
    text +=
        f.good ? fmt::format("ok     {}\n", f.what) : fmt::format("check  {}\n       {}\n", f.what, f.advice);
  }
  return text;
}

}  // namespace numoe::worker
