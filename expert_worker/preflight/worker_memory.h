// What a worker takes of the host's memory: told to the other processes, and refused where it is not there.
//
// CompareWorkerMemory is pure: numbers in, a finding out that names what fits. --preflight prints it, and
// CheckWorkerMemory makes an error of it, so that a start is refused by what --preflight says.
// ReserveWorkerMemory asks the host (common/topology/host_memory.h), checks, logs the plan and reserves, all
// while nobody else does: of two that start at once the second one finds what the first one will take. Called
// once, by the thread that loads, before any weight takes memory.
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

/// Beside weights and mailboxes: buffers of reading the weights (limits::kLoadStagingBytesMax), which are
/// free again when scratch of calls comes.
inline constexpr uint64_t kWorkerBytesBesideWeights = uint64_t{256} << 20;

struct WorkerNeeds {
  uint64_t weight_bytes = 0;  // of the slice, as far as they take free memory
  int worker_count = 1;
  uint64_t mailbox_bytes = 0;  // of the sessions through shared memory that are planned for
  bool packed = false;         // for this number of workers and in these formats
  uint64_t beside() const { return kWorkerBytesBesideWeights + mailbox_bytes; }
  uint64_t total() const { return weight_bytes + beside(); }
};

/// "memory_available": whether workers of one set that start on this host fit together. `others` as
/// HostMemory::Others says it. REQUIRES: there is a worker.
Finding CompareWorkerMemory(const std::vector<WorkerNeeds>& workers, uint64_t available,
                            const std::string& others);
/// RESOURCE_EXHAUSTED: it does not fit.
absl::Status CheckWorkerMemory(const WorkerNeeds& needs, uint64_t available, const std::string& others);

/// `folder` as HostMemory::Look takes it, `program` as Reserve does. Waits as long as memory is given back.
absl::StatusOr<MemoryReservation> ReserveWorkerMemory(const WorkerNeeds& needs, const std::string& folder,
                                                      const std::string& program,
                                                      const std::filesystem::path& root = "/");

}  // namespace numoe::worker
