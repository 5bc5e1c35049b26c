// Pinning: whether the CPUs and memory that this process was given belong to it alone, and to one NUMA node.
//
// It reads files under a root ("/" except in tests): what the kernel lets the main thread use
// (/proc/self/status), the CPUs of the nodes and of the machine, the quota of the cgroups around this
// process, and the memory policy that it was started with. Call it before this process binds itself.
// Kubernetes gives exclusive CPUs only to Guaranteed pods with whole CPUs under the static CPU manager, and
// does not report if a condition is missed; this check does. It needs no privilege.
#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "expert_worker/preflight/finding.h"

namespace numoe::worker {

struct PinningRequest {
  std::vector<int> nodes = {};  // OS numbers of the allowed nodes; empty means any one
  bool any_nodes = false;       // a supervisor divides the nodes among its workers
  int exclusive_cpus = 0;       // the promised number; 0 if not known
};

/// Returns the checks "cpus_exclusive", "cpus_one_node", "memory_nodes" and, if there is a policy,
/// "memory_policy"; empty if the kernel does not say.
std::vector<Finding> CheckPinning(const std::filesystem::path& root, const PinningRequest& request);
/// Returns the nodes of this process's CPUs, ascending; empty if the kernel does not say.
std::vector<int> NodesOfOwnCpus(const std::filesystem::path& root);
/// Returns FAILED_PRECONDITION with the first finding that is not good, and what to do.
absl::Status RequirePinning(const std::vector<Finding>& findings);

/// Makes sure that a worker is the only one on its nodes. While it exists it holds an abstract socket for
/// each node, which does not remain after a crash. It counts within one network namespace: that of a host, or
/// of a pod with all its containers.
class NodeClaim {
 public:
  /// ALREADY_EXISTS names the node that another worker uses.
  static absl::StatusOr<NodeClaim> Take(const std::vector<int>& nodes);
  NodeClaim(NodeClaim&& other) noexcept : sockets_(std::move(other.sockets_)) { other.sockets_.clear(); }
  NodeClaim& operator=(NodeClaim&&) = delete;
  ~NodeClaim();

 private:
  NodeClaim() = default;
  std::vector<int> sockets_;
};

}  // namespace numoe::worker
