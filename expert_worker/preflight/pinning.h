// Pinning: whether the CPUs and memory that this process was given are its own, and of one place.
//
// From files below a root ("/" but in tests): what the kernel lets the main thread use (/proc/self/status),
// the nodes' CPUs, the machine's CPUs, the quota of the cgroups around this process and the memory policy
// that it was started with. Look before this process binds itself. Kubernetes gives exclusive CPUs only to
// Guaranteed pods with whole CPUs under the static CPU manager, and says nothing where a condition is missed:
// this is where it is said. Nothing here needs a privilege.
#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "expert_worker/preflight/finding.h"

namespace numoe::worker {

struct PinningRequest {
  std::vector<int> nodes = {};  // OS numbers that CPUs may lie on; empty: any one
  bool any_nodes = false;       // a supervisor divides them among its workers
  int exclusive_cpus = 0;       // that were promised; 0: not known
};

/// The checks "cpus_exclusive", "cpus_one_node", "memory_nodes" and "memory_policy" (where there is one);
/// none where the kernel does not say.
std::vector<Finding> CheckPinning(const std::filesystem::path& root, const PinningRequest& request);
/// The nodes that this process's CPUs lie on, ascending; empty where the kernel does not say.
std::vector<int> NodesOfOwnCpus(const std::filesystem::path& root);
/// FAILED_PRECONDITION with the first finding that is not good, and what to do.
absl::Status RequirePinning(const std::vector<Finding>& findings);

/// The only worker of its nodes: holds an abstract socket for each while it lives, which no crash leaves
/// behind. It counts in one network namespace: a pod or a host, the containers of one pod included.
class NodeClaim {
 public:
  /// ALREADY_EXISTS names the node that another worker has.
  static absl::StatusOr<NodeClaim> Take(const std::vector<int>& nodes);
  NodeClaim(NodeClaim&& other) noexcept : sockets_(std::move(other.sockets_)) { other.sockets_.clear(); }
  NodeClaim& operator=(NodeClaim&&) = delete;
  ~NodeClaim();

 private:
  NodeClaim() = default;
  std::vector<int> sockets_;
};

}  // namespace numoe::worker
