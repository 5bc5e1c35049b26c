// ExpertSlice: the packed weights of one worker's part of every expert of every MoE layer.
//
// Read from the checkpoint once, checked, packed by the pool's threads (so that pages land on their node) and
// then read-only. Gate and up are [width, hidden], down is [hidden, width], where width is this slice's part
// of the expert's intermediate dimension (slice=intermediate) or all of it (slice=expert).
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"
#include "common/threading/thread_pool.h"
#include "common/topology/node_memory.h"
#include "common/weights/checkpoint.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/experts/matrix_loader.h"

namespace numoe {

struct ExpertWeights {
  PackedMatrix gate, up, down;
};

struct ExpertSlice {
  SliceSpec spec;
  WeightFormat format = WeightFormat::kBf16;
  int hidden_size = 0;
  int width = 0;
  std::vector<bool> owned;                         // [experts]
  std::vector<std::vector<ExpertWeights>> layers;  // [layers][experts]; empty for dense layers
  std::vector<NodeMemory> memory;                  // one block for each MoE layer
  uint64_t bytes = 0;
};

/// InvalidArgument: the slice cuts a quantisation group, or the format cannot hold the checkpoint's; says
/// what to do.
absl::StatusOr<ExpertSlice> LoadSlice(const Checkpoint& checkpoint, const ModelConfig& config,
                                      const SliceSpec& spec, const std::string& format, ThreadPool& pool,
                                      const LoadOptions& options = {});

}  // namespace numoe
