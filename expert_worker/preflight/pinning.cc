#include "expert_worker/preflight/pinning.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace numoe {
namespace {

namespace fs = std::filesystem;

using Numbers = std::set<int>;

// A list as the kernel writes it, "0-3,8"; nullopt where it is none.
std::optional<Numbers> ParseList(std::string_view text) {
  Numbers numbers;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    int first = 0, last = 0;
    const char* const end = part.data() + part.size();
    auto read = std::from_chars(part.data(), end, first);
    last = first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-')
      read = std::from_chars(read.ptr + 1, end, last);
    constexpr int kNumberMax = 1 << 16;
    if (read.ec != std::errc() || read.ptr != end || first < 0 || last < first || last > kNumberMax)
      return std::nullopt;
    for (int n = first; n <= last; ++n) numbers.insert(n);
  }
  return numbers;
}

std::optional<Numbers> ReadList(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return ParseList(line);
}

// "Cpus_allowed_list:\t0-3" of a status file.
std::optional<Numbers> StatusList(const fs::path& root, std::string_view key) {
  std::ifstream file(root / "proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", key.size());
    if (begin != std::string::npos) return ParseList(std::string_view(line).substr(begin));
  }
  return std::nullopt;
}

// The kernel's form again.
std::string ToText(const Numbers& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const int first = *it;
    int last = first;
    for (++it; it != numbers.end() && *it == last + 1; ++it) last = *it;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

// Nodes with CPUs among `cpus`.
Numbers NodesOf(const fs::path& root, const Numbers& cpus) {
  Numbers nodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", error)) {
    const std::string name = entry.path().filename();
    if (name.rfind("node", 0) != 0) continue;
    const std::optional<Numbers> own = ReadList(entry.path() / "cpulist");
    const auto number = ParseList(std::string_view(name).substr(4));
    if (!own || !number || number->size() != 1) continue;
    if (std::any_of(own->begin(), own->end(), [&](int cpu) { return cpus.count(cpu) > 0; }))
      nodes.insert(*number->begin());
  }
  return nodes;
}

// cgroup v2's "QUOTA PERIOD" in microseconds; nullopt: none.
std::optional<double> QuotaCpus(const fs::path& root) {
  std::ifstream file(root / "sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

constexpr const char* kGuaranteed =
    "give it CPUs of its own (Kubernetes: Guaranteed QoS with whole CPUs and cpuManagerPolicy static; "
    "systemd: "
    "AllowedCPUs=; podman: --cpuset-cpus)";

Finding CheckExclusive(const fs::path& root, const PinningRequest& request, const Numbers& cpus) {
  const std::string check = "cpus_exclusive";
  const std::string found = fmt::format("{} CPUs ({})", cpus.size(), ToText(cpus));
  if (const auto quota = QuotaCpus(root)) {
    return {check, false, fmt::format("{} with a quota of {:.2f}: shared with others", found, *quota),
            kGuaranteed};
  }
  if (request.exclusive_cpus > 0 && static_cast<int>(cpus.size()) != request.exclusive_cpus) {
    return {check, false,
            fmt::format("{}, but {} were promised: these are the shared ones", found, request.exclusive_cpus),
            kGuaranteed};
  }
  const auto online = ReadList(root / "sys/devices/system/cpu/online");
  if (request.exclusive_cpus == 0 && online && *online == cpus) {
    return {check, false, fmt::format("{}: the whole machine's, which everything else runs on too", found),
            kGuaranteed};
  }
  return {check, true, fmt::format("{}, without a quota", found), ""};
}

Finding CheckOneNode(const PinningRequest& request, const Numbers& nodes) {
  const std::string check = "cpus_one_node";
  const std::string found = fmt::format("CPUs lie on node{} {}", nodes.size() == 1 ? "" : "s", ToText(nodes));
  const Numbers asked(request.nodes.begin(), request.nodes.end());
  const bool covered = std::includes(asked.begin(), asked.end(), nodes.begin(), nodes.end());
  if (request.any_nodes || nodes.size() == 1 || covered) return {check, true, found, ""};
  return {
      check, false, found,
      "CPUs of one node for one worker (Kubernetes: topologyManagerPolicy single-numa-node, a request that "
      "fits a node; elsewhere --numa-nodes, a cpuset, or --supervise)"};
}

Finding CheckMemoryNodes(const Numbers& nodes, const Numbers& mems) {
  const std::string check = "memory_nodes";
  const std::string found =
      fmt::format("memory may come from node{} {}", mems.size() == 1 ? "" : "s", ToText(mems));
  if (std::includes(mems.begin(), mems.end(), nodes.begin(), nodes.end())) return {check, true, found, ""};
  return {
      check, false, fmt::format("{}, CPUs are on {}", found, ToText(nodes)),
      "memory of the CPUs' own nodes (Kubernetes: memoryManagerPolicy Static; systemd: AllowedMemoryNodes=; "
      "podman: --cpuset-mems)"};
}

std::string ClaimName(int node) { return fmt::format("numoe-expert-worker-node-{}", node); }

}  // namespace

std::vector<Finding> CheckPinning(const fs::path& root, const PinningRequest& request) {
  const auto cpus = StatusList(root, "Cpus_allowed_list:");
  if (!cpus || cpus->empty()) return {};
  std::vector<Finding> findings = {CheckExclusive(root, request, *cpus)};
  const Numbers nodes = NodesOf(root, *cpus);
  if (nodes.empty()) return findings;
  findings.push_back(CheckOneNode(request, nodes));
  if (const auto mems = StatusList(root, "Mems_allowed_list:"))
    findings.push_back(CheckMemoryNodes(nodes, *mems));
  return findings;
}

std::vector<int> NodesOfOwnCpus(const fs::path& root) {
  const Numbers nodes = NodesOf(root, StatusList(root, "Cpus_allowed_list:").value_or(Numbers{}));
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
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero: the abstract names
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) {
      return absl::AlreadyExistsError(
          fmt::format("--pinning required: another worker lives on node {}; expected one for each node: give "
                      "this one CPUs "
                      "of another node, or both of them --pinning=preferred",
                      node));
    }
  }
  return claim;
}

NodeClaim::~NodeClaim() {
  for (const int fd : sockets_) close(fd);
}

}  // namespace numoe
