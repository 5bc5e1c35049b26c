// Reserves the memory of a worker on this host, so that other processes know of it, and refuses a start
// without enough memory.
//
// CompareWorkerMemory is a pure function: it takes numbers and returns a finding that says what would fit.
// --preflight prints the finding, and CheckWorkerMemory makes it an error, so that a start is refused for the
// reasons that --preflight gives. ReserveWorkerMemory reads the host's reservations
// (common/topology/host_memory.h), checks, logs the plan and reserves, while no other process does that: of
// two workers that start at the same time, the second one sees what the first one will take. The thread that
// loads calls it once, before any weight takes memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/topology/host_memory.h"
#include "expert_worker/preflight/finding.h"

namespace numoe::worker {

/// The memory of a worker in addition to weights and mailboxes: buffers for reading the weights
/// (limits::kLoadStagingBytesMax). They are freed before the scratch of calls is allocated.
inline constexpr uint64_t kWorkerBytesBesideWeights = uint64_t{256} << 20;

struct WorkerNeeds {
  uint64_t weight_bytes = 0;  // of the slice, as far as they take free memory
  int worker_count = 1;
  uint64_t mailbox_bytes = 0;  // of the planned sessions through shared memory
  bool packed = false;         // the model is packed for this number of workers and in these formats
  uint64_t beside() const { return kWorkerBytesBesideWeights + mailbox_bytes; }
  uint64_t total() const { return weight_bytes + beside(); }
};

/// Returns "memory_available": whether the workers of one set that start on this host fit into memory
/// together. `others` as HostMemory::Others returns it. REQUIRES: there is a worker.
Finding CompareWorkerMemory(const std::vector<WorkerNeeds>& workers, uint64_t available,
                            const std::string& others);
/// Returns RESOURCE_EXHAUSTED if it does not fit.
absl::Status CheckWorkerMemory(const WorkerNeeds& needs, uint64_t available, const std::string& others);

/// `folder` as for HostMemory::ReadReservations, `program` as for Reserve. Waits as long as other processes
/// give memory back.
absl::StatusOr<MemoryReservation> ReserveWorkerMemory(const WorkerNeeds& needs, const std::string& folder,
                                                      const std::string& program,
                                                      const std::filesystem::path& root = "/");

}  // namespace numoe::worker
