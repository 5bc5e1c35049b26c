// SliceNeeds: computes how much memory a worker's slice will take, from headers, before any weight is read.
//
// Reads the checkpoint's headers or, if the model is packed, its manifest and which parts of the shards are
// in the page cache. --preflight and a starting worker compare the results with the memory of the host
// (preflight/worker_memory.h). Plain values and functions without state; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/weights/model_config.h"
#include "expert_worker/preflight/worker_memory.h"
#include "expert_worker/startup/worker_options.h"

namespace numoe::worker {

/// Returns the sizes and the MoE layers of a checkpoint or of a packed model.
absl::StatusOr<ModelConfig> ReadConfigOf(const std::string& model);

/// Returns the bytes of the segment of one session through shared memory. Only one session is planned for; a
/// host with more coordinators needs more.
uint64_t MailboxBytes(const ModelConfig& config);

struct SliceBytes {
  uint64_t weights = 0;         // all bytes of the weights
  uint64_t of_free_memory = 0;  // those that need free memory: not reserved huge pages, not cached shards
};

/// Returns what the weights of options.executor.slice take.
absl::StatusOr<SliceBytes> PlanSliceBytes(const WorkerOptions& options);

/// Returns what a worker with these options takes of the host's memory, if its weights take `weight_bytes` of
/// free memory.
absl::StatusOr<WorkerNeeds> NeedsOf(const WorkerOptions& options, uint64_t weight_bytes);

}  // namespace numoe::worker
