#include "expert_worker/startup/preflight_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/topology/topology.h"
#include "expert_worker/experts/worker_home.h"
#include "expert_worker/preflight/preflight.h"
#include "expert_worker/startup/fleet.h"
#include "expert_worker/startup/slice_needs.h"
#include "expert_worker/startup/worker_placement.h"

namespace numoe::worker {
namespace {

// Returns the nodes of each worker that these options would start here, and sets the number of slices.
absl::StatusOr<std::vector<std::vector<int>>> HomesFor(WorkerOptions& options) {
  const absl::StatusOr<Topology> topology = DetectTopology();
  if (!topology.ok()) return std::vector<std::vector<int>>(1);  // Preflight reports this error as a finding
  std::vector<std::vector<int>> homes;
  if (options.fleet) {
    ASSIGN_OR_RETURN(const FleetPlan plan, PlanFleetFor(options, *topology));
    options.executor.slice.worker_count = plan.worker_count;
    for (const FleetWorker& worker : plan.workers) homes.push_back(worker.nodes);
  } else {
    ASSIGN_OR_RETURN(Placement home, PlanPlacement(*topology, RequestFor(options.executor)));
    homes.push_back(std::move(home.nodes));
  }
  return homes;
}

}  // namespace

absl::StatusOr<PreflightReport> ReportPreflight(WorkerOptions options) {
  NUMOE_CHECK(options.preflight || !options.model.empty()) << "a model may be left out only for --preflight";
  std::vector<WorkerOnNodes> workers;
  std::vector<Finding> reserved;
  if (!options.model.empty()) {
    ASSIGN_OR_RETURN(const std::vector<std::vector<int>> homes, HomesFor(options));
    NUMOE_CHECK(!homes.empty());
    ASSIGN_OR_RETURN(const SliceBytes slice, PlanSliceBytes(options));
    ASSIGN_OR_RETURN(const WorkerNeeds needs, NeedsOf(options, slice.of_free_memory));
    const HugePages pages = options.executor.memory.pages;
    for (const std::vector<int>& nodes : homes) {
      workers.push_back({.needs = needs, .nodes = nodes});
      if (pages == HugePages::kTransparent) continue;
      for (Finding& finding : CheckReservedPagesFor("/", pages, slice.weights, nodes))
        reserved.push_back(std::move(finding));
    }
  }
  std::vector<Finding> findings = Preflight(PinningFor(options), workers, options.memory_reservations);
  findings.insert(findings.end(), reserved.begin(), reserved.end());
  const auto good = [](const Finding& finding) { return finding.good; };
  return PreflightReport{.text = ToString(findings),
                         .good = std::all_of(findings.begin(), findings.end(), good)};
}

}  // namespace numoe::worker
