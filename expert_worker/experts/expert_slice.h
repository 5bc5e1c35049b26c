// ExpertSlice: the packed weights of one worker's part of every expert of every MoE layer.
//
// Read from the checkpoint once, checked, packed by the pool's threads (so that pages land on their node) and
// then read-only. Gate and up are [width, hidden], down is [hidden, width], where width is this slice's part
// of the expert's intermediate dimension (slice=intermediate) or all of it (slice=expert).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"
#include "common/threading/thread_pool.h"
#include "common/transport/mapped_weights.h"
#include "common/weights/checkpoint.h"
#include "expert_worker/experts/expert_formats.h"
#include "expert_worker/experts/matrix_loader.h"
#include "expert_worker/experts/slice_layout.h"
#include "expert_worker/experts/slice_memory.h"

namespace numoe::worker {

struct ExpertSlice {
  ExpertSlice() = default;
  ExpertSlice(const SliceLayout& layout, const ModelConfig& config);
  /// The layer's weights lie in `block`, which the caller keeps in `memory` or `shards`.
  void AddLayer(const SliceLayout& layout, LayerId layer, const std::byte* block);

  SliceSpec spec;
  std::vector<ExpertFormats> formats;  // [layers]
  std::string format_names;            // of all that is held
  int hidden_size = 0;
  int width = 0;
  int64_t first = 0;                               // of the intermediate dimension, where the width begins
  std::vector<bool> owned;                         // [experts]
  std::vector<std::vector<ExpertWeights>> layers;  // [layers][experts]; empty for dense layers
  SliceMemory memory;                              // of the weights, or
  std::vector<MappedFile> shards;                  // packed shards that are mapped
  uint64_t bytes = 0;

  /// Of one expert's weights.
  uint64_t ExpertBytes(LayerId layer) const;
  /// What lies where in memory.fd().
  MappedWeights Directory() const;
  /// Where the weights lie.
  MemorySpans Spans() const;
};

/// Gate, up and down of one expert as they are stored.
absl::StatusOr<std::vector<MatrixView>> LocateExpert(const Checkpoint& checkpoint, const ModelConfig& config,
                                                     LayerId layer, ExpertId expert);

/// Appends the matrices of one layer's experts, to be packed into `block` of layout.layer_bytes(layer).
/// NotFound and InvalidArgument name what the checkpoint lacks.
absl::Status LocateLayer(const Checkpoint& checkpoint, const ModelConfig& config, const SliceLayout& layout,
                         LayerId layer, std::byte* block, ThreadPool& pool, std::vector<MatrixLoad>& loads);

/// InvalidArgument: the slice cuts a quantisation group, or the format cannot hold the checkpoint's; says
/// what to do.
absl::StatusOr<ExpertSlice> LoadSlice(const Checkpoint& checkpoint, const ModelConfig& config,
                                      const SliceSpec& spec, std::optional<WeightFormat> format,
                                      ThreadPool& pool, const LoadOptions& options = {});

}  // namespace numoe::worker
