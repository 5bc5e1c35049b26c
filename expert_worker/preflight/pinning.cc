#include "expert_worker/preflight/pinning.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/topology/control_groups.h"
#include "common/topology/memory_policy.h"
#include "common/topology/number_list.h"

namespace numoe::worker {
namespace {

namespace fs = std::filesystem;

// Returns the nodes that have CPUs among `cpus`.
NumberList NodesOf(const fs::path& root, const NumberList& cpus) {
  NumberList nodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", error)) {
    const std::string name = entry.path().filename();
    if (name.rfind("node", 0) != 0) continue;
    const std::optional<NumberList> own = ReadNumberList(entry.path() / "cpulist");
    const auto number = ParseNumberList(std::string_view(name).substr(4));
    if (!own || !number || number->size() != 1) continue;
    if (std::any_of(own->begin(), own->end(), [&](int cpu) { return cpus.count(cpu) > 0; }))
      nodes.insert(*number->begin());
  }
  return nodes;
}

constexpr const char* kGuaranteed =
    "give it CPUs of its own (Kubernetes: Guaranteed QoS with whole CPUs and cpuManagerPolicy static; "
    "systemd: AllowedCPUs=; podman: --cpuset-cpus)";

Finding CheckExclusive(const fs::path& root, const PinningRequest& request, const NumberList& cpus) {
  NUMOE_CHECK(!cpus.empty() && request.exclusive_cpus >= 0);
  const std::string check = "cpus_exclusive";
  const std::string found = fmt::format("{} CPUs ({})", cpus.size(), ToText(cpus));
  // Kubernetes before 1.33 sets a quota of as many CPUs' time as there are exclusive CPUs, which does not
  // limit anything.
  if (const auto quota = CpuQuotaOf(root); quota && *quota < static_cast<double>(cpus.size())) {
    return {check, false,
            fmt::format("{} with a quota of {:.2f}: shared with other processes", found, *quota),
            kGuaranteed};
  }
  if (request.exclusive_cpus > 0 && static_cast<int>(cpus.size()) != request.exclusive_cpus) {
    return {check, false,
            fmt::format("{}, but {} were promised: these are the shared CPUs", found, request.exclusive_cpus),
            kGuaranteed};
  }
  const auto online = ReadNumberList(root / "sys/devices/system/cpu/online");
  if (request.exclusive_cpus == 0 && online && *online == cpus) {
    return {check, false,
            fmt::format("{}: all CPUs of the machine, which all other programs use, too", found),
            fmt::format("{}; or, if only NUMoE uses this machine, say so with --exclusive-cpus={}",
                        kGuaranteed, cpus.size())};
  }
  return {check, true, fmt::format("{}, without a smaller quota", found), ""};
}

Finding CheckOneNode(const PinningRequest& request, const NumberList& nodes) {
  NUMOE_CHECK(!nodes.empty());
  const std::string check = "cpus_one_node";
  const std::string found =
      fmt::format("its CPUs are on node{} {}", nodes.size() == 1 ? "" : "s", ToText(nodes));
  const NumberList asked(request.nodes.begin(), request.nodes.end());
  const bool covered = std::includes(asked.begin(), asked.end(), nodes.begin(), nodes.end());
  if (request.any_nodes || nodes.size() == 1 || covered) return {check, true, found, ""};
  return {
      check, false, found,
      "CPUs of one node for one worker (Kubernetes: topologyManagerPolicy single-numa-node, a request that "
      "fits a node; elsewhere --numa-nodes, a cpuset, or --supervise)"};
}

Finding CheckMemoryNodes(const NumberList& nodes, const NumberList& mems) {
  const std::string check = "memory_nodes";
  const std::string found =
      fmt::format("memory may come from node{} {}", mems.size() == 1 ? "" : "s", ToText(mems));
  if (std::includes(mems.begin(), mems.end(), nodes.begin(), nodes.end())) return {check, true, found, ""};
  return {
      check, false, fmt::format("{}, CPUs are on {}", found, ToText(nodes)),
      "memory of the CPUs' own nodes (Kubernetes: memoryManagerPolicy Static; systemd: AllowedMemoryNodes=; "
      "podman: --cpuset-mems)"};
}

// Checks the policy that numactl or systemd's NUMAPolicy= gave this process. The worker places its memory
// itself if the kernel lets it, but an operator who asked for other nodes should know.
Finding CheckMemoryPolicy(const NumberList& home, const InheritedPolicy& policy) {
  const std::string check = "memory_policy";
  const std::string found = fmt::format("this process was started with the memory policy {}", policy.text);
  if (policy.KeepsTo(home)) return {check, true, found, ""};
  return {
      check, false, fmt::format("{}, CPUs are on {}", found, ToText(home)),
      "start it without numactl's --membind, --preferred or --interleave (systemd: without NUMAPolicy=), or "
      "with nodes of its CPUs: it places its memory itself"};
}

std::string ClaimName(int node) { return fmt::format("numoe-expert-worker-node-{}", node); }

}  // namespace

std::vector<Finding> CheckPinning(const fs::path& root, const PinningRequest& request) {
  const auto cpus = ReadStatusList(root, "Cpus_allowed_list:");
  if (!cpus || cpus->empty()) return {};
  std::vector<Finding> findings = {CheckExclusive(root, request, *cpus)};
  const NumberList nodes = NodesOf(root, *cpus);
  if (nodes.empty()) return findings;
  findings.push_back(CheckOneNode(request, nodes));
  if (const auto mems = ReadStatusList(root, "Mems_allowed_list:"))
    findings.push_back(CheckMemoryNodes(nodes, *mems));
  const NumberList asked(request.nodes.begin(), request.nodes.end());
  if (const auto policy = ReadInheritedPolicy(root))
    findings.push_back(CheckMemoryPolicy(asked.empty() ? nodes : asked, *policy));
  return findings;
}

std::vector<int> NodesOfOwnCpus(const fs::path& root) {
  const NumberList nodes = NodesOf(root, ReadStatusList(root, "Cpus_allowed_list:").value_or(NumberList{}));
  return {nodes.begin(), nodes.end()};
}

absl::Status RequirePinning(const std::vector<Finding>& findings) {
  for (const Finding& f : findings) {
    if (!f.good)
      return absl::FailedPreconditionError(fmt::format("--pinning required: {}; {}", f.what, f.advice));
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeClaim> NodeClaim::Take(const std::vector<int>& nodes) {
  NodeClaim claim;
  for (const int node : nodes) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
      return absl::ResourceExhaustedError(fmt::format("cannot make a socket: {}", std::strerror(errno)));
    claim.sockets_.push_back(fd);
    const std::string name = ClaimName(node);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    NUMOE_CHECK_LT(name.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero means an abstract name
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) {
      return absl::AlreadyExistsError(
          fmt::format("--pinning required: another worker runs on node {}; expected one for each node: give "
                      "this one CPUs of another node, or both of them --pinning=preferred",
                      node));
    }
  }
  return claim;
}

NodeClaim::~NodeClaim() {
  for (const int fd : sockets_) close(fd);
}

}  // namespace numoe::worker
