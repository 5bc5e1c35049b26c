// Which workers a supervisor starts: where each lives, what it is told. Planning only, pure functions.
//
// A home is a NUMA node, or with `per_package` a socket with all its clusters. As many workers as homes, or
// as are asked for: fewer take several homes each, more share a home and divide its cores. A worker is its
// slice's index, never its node's number. Unix sockets are named by the slice; ports count up from the given
// one by the worker's place on this host, so that all hosts of a set look alike.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/topology/topology.h"

namespace numoe::worker {

struct FleetRequest {
  int local_workers = 0;     // 0: one for each home
  int first_index = 0;       // slice of the first worker here; others of the set live on other hosts
  int worker_count = 0;      // slices in all; 0: those from first_index on that live here
  bool per_package = false;  // homes are sockets
  bool own_home = false;     // no two workers on one home (--pinning required)
  std::string listen;        // unix:FOLDER, or HOST:PORT of the first worker
  int metrics_port = 0;      // of the first worker; 0: any free one
  // Where the supervisor asks its workers' health if not at `listen`, whose TLS wants a coordinator's
  // certificate: an address that each gets its slice's number put behind. "": at `listen`.
  std::string health;
};

struct FleetWorker {
  int index = 0;           // its slice
  std::vector<int> nodes;  // OS numbers, ascending
  std::vector<int> cpus;   // that it may use, OS numbers
  std::string listen;
  int metrics_port = 0;
  std::string health = "none";  // --health-listen; none: it answers at `listen`
};

struct FleetPlan {
  std::vector<FleetWorker> workers;  // by index
  int worker_count = 0;              // slices in all
  std::string ToString() const;
};

/// INVALID_ARGUMENT names the flag that does not fit; FAILED_PRECONDITION: `own_home`, and there are too few.
absl::StatusOr<FleetPlan> PlanFleet(const Topology& topology, const FleetRequest& request);

/// The command line of a worker: the supervisor's own without what it decides itself, and with that.
/// `arguments` do not begin with the program.
std::vector<std::string> WorkerArguments(const std::vector<std::string>& arguments, const FleetPlan& plan,
                                         const FleetWorker& worker);

}  // namespace numoe::worker
