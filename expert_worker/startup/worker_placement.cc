#include "expert_worker/startup/worker_placement.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "expert_worker/experts/worker_home.h"
#include "expert_worker/preflight/preflight.h"

namespace numoe::worker {
namespace {

std::vector<Finding> FindSettings(const WorkerOptions& options) {
  std::vector<Finding> findings = CheckPinning("/", PinningFor(options));
  findings.push_back(CheckPolicies("/"));
  const bool policies_allowed = findings.back().good;
  for (Finding& finding : CheckSettings("/", policies_allowed)) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace

PinningRequest PinningFor(const WorkerOptions& options) {
  return {.nodes = options.executor.numa_nodes,
          .any_nodes = options.fleet.has_value(),
          .exclusive_cpus = options.exclusive_cpus};
}

absl::StatusOr<std::optional<NodeClaim>> ClaimNodes(const WorkerOptions& options) {
  NUMOE_CHECK_EQ(options.executor.local_required, options.pinning_required) << "--pinning sets both";
  if (!options.pinning_required) return std::nullopt;
  RETURN_IF_ERROR(RequirePinning(CheckPinning("/", PinningFor(options))));
  if (options.fleet) return std::nullopt;
  const std::vector<int>& nodes = options.executor.numa_nodes;
  ASSIGN_OR_RETURN(NodeClaim claim, NodeClaim::Take(nodes.empty() ? NodesOfOwnCpus("/") : nodes));
  return claim;
}

absl::StatusOr<WorkerPlacement> SettleWorker(const WorkerOptions& options) {
  NUMOE_CHECK(!options.fleet) << "the workers of a supervisor settle themselves";
  ASSIGN_OR_RETURN(std::optional<NodeClaim> claim, ClaimNodes(options));
  std::vector<Finding> findings = FindSettings(options);  // about the process as it was started
  ASSIGN_OR_RETURN(auto home, SharedHome::Find(LimitByQuota(RequestFor(options.executor))));
  SettleAt(home->placement());
  home->Follow();
  return WorkerPlacement{.claim = std::move(claim), .findings = std::move(findings), .home = std::move(home)};
}

}  // namespace numoe::worker
