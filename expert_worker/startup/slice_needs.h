// SliceNeeds: what a worker's slice will take of memory, told from headers before any weight is read.
//
// Reads the checkpoint's headers, or the manifest and the shards' state in the page cache where the model is
// packed. What is told here is compared with the host (preflight/worker_memory.h), by --preflight and again
// when the worker starts. No owner; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/weights/model_config.h"
#include "expert_worker/preflight/worker_memory.h"
#include "expert_worker/startup/worker_options.h"

namespace numoe::worker {

/// Sizes and MoE layers of a checkpoint or of a packed model.
absl::StatusOr<ModelConfig> ReadConfigOf(const std::string& model);

/// Bytes of the segment of one session through shared memory, which is planned for; a host with more
/// coordinators needs more.
uint64_t MailboxBytes(const ModelConfig& config);

struct SliceBytes {
  uint64_t weights = 0;
  uint64_t of_free_memory = 0;  // of these; reserved huge pages and shards in memory are other memory
};

/// What the weights of options.executor.slice take.
absl::StatusOr<SliceBytes> PlanSliceBytes(const WorkerOptions& options);

/// What a worker of these options takes beside others, if its weights take `weight_bytes` of free memory.
absl::StatusOr<WorkerNeeds> NeedsOf(const WorkerOptions& options, uint64_t weight_bytes);

}  // namespace numoe::worker
