// Plans which workers a supervisor starts, on which NUMA nodes, and with which flags. Pure functions.
//
// A home is a NUMA node or, with `per_package`, a socket with all its clusters. Without a number there is one
// worker for each home. With fewer workers than homes each has several homes; with more, several workers
// share a home and divide its cores. A worker is identified by its slice's index, never by its node's number.
// Unix sockets are named by the slice. Ports count up from the given one by the worker's position on this
// host, so that all hosts of a set use the same ports.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/topology/topology.h"

namespace numoe::worker {

struct FleetRequest {
  int local_workers = 0;     // workers on this host; 0 means one for each home
  int first_index = 0;       // slice of the first worker here; the rest of the set runs on other hosts
  int worker_count = 0;      // slices in all; 0 if the last one runs on this host
  bool per_package = false;  // homes are sockets
  bool own_home = false;     // no two workers on one home (--pinning required)
  std::string listen;        // unix:FOLDER, or HOST:PORT of the first worker
  int metrics_port = 0;      // of the first worker; 0 means any free port for each
  // The address at which the supervisor asks its workers' health, to which each worker's slice number is
  // appended. "" means `listen`; with mutual TLS that would demand a coordinator's certificate.
  std::string health;
};

struct FleetWorker {
  int index = 0;           // of its slice
  std::vector<int> nodes;  // OS numbers, ascending
  std::vector<int> cpus;   // the CPUs that it may use, OS numbers
  std::string listen;
  int metrics_port = 0;
  std::string health = "none";  // --health-listen; "none" if it answers at `listen`
};

struct FleetPlan {
  std::vector<FleetWorker> workers;  // by index
  int worker_count = 0;              // slices in all
  std::string ToString() const;
};

/// Returns INVALID_ARGUMENT with the flag that does not fit; FAILED_PRECONDITION if `own_home` is set and
/// there are fewer homes than workers.
absl::StatusOr<FleetPlan> PlanFleet(const Topology& topology, const FleetRequest& request);

/// Returns the command line of a worker: the supervisor's `arguments` without the flags that the supervisor
/// decides, followed by these flags with the worker's values. Neither begins with the program's name.
std::vector<std::string> WorkerArguments(const std::vector<std::string>& arguments, const FleetPlan& plan,
                                         const FleetWorker& worker);

}  // namespace numoe::worker
