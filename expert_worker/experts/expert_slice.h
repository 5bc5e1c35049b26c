// ExpertSlice: the packed weights of one worker's part of every expert of every MoE layer.
//
// The weights are read from the checkpoint once, checked, and packed by the pool's threads (so that pages are
// allocated on their node). Afterwards they are read-only. Gate and up are [width, hidden] and down is
// [hidden, width], where width is this slice's part of the expert's intermediate dimension
// (slice=intermediate) or all of it (slice=expert).
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
  /// Adds a layer whose weights are in `block`. The caller keeps this memory in `memory` or `shards`.
  void AddLayer(const SliceLayout& layout, LayerId layer, const std::byte* block);

  SliceSpec spec;
  std::vector<ExpertFormats> formats;  // [layers]
  std::string format_names;            // all formats in use
  int hidden_size = 0;
  int width = 0;
  int64_t first = 0;        // index in the intermediate dimension where this slice's part begins
  std::vector<bool> owned;  // [experts]
  std::vector<std::vector<ExpertWeights>> layers;  // [layers][experts]; empty for dense layers
  SliceMemory memory;                              // of the weights, unless they are mapped
  std::vector<MappedFile> shards;                  // packed shards that are mapped
  uint64_t bytes = 0;

  /// Returns the bytes of one expert's weights.
  uint64_t ExpertBytes(LayerId layer) const;
  /// Returns where each layer is in memory.fd().
  MappedWeights Directory() const;
  /// Returns the memory of the weights.
  MemorySpans Spans() const;
};

/// Locates gate, up and down of one expert as they are stored.
absl::StatusOr<std::vector<MatrixView>> LocateExpert(const Checkpoint& checkpoint, const ModelConfig& config,
                                                     LayerId layer, ExpertId expert);

/// Appends the loads of one layer's experts, which pack them into `block` (layout.layer_bytes(layer) bytes).
/// NotFound and InvalidArgument name what the checkpoint lacks.
absl::Status LocateLayer(const Checkpoint& checkpoint, const ModelConfig& config, const SliceLayout& layout,
                         LayerId layer, std::byte* block, ThreadPool& pool, std::vector<MatrixLoad>& loads);

/// InvalidArgument if the slice would cut a quantisation group, or if the format cannot hold the checkpoint's
/// weights; the message says what to do.
absl::StatusOr<ExpertSlice> LoadSlice(const Checkpoint& checkpoint, const ModelConfig& config,
                                      const SliceSpec& spec, std::optional<WeightFormat> format,
                                      ThreadPool& pool, const LoadOptions& options = {});

}  // namespace numoe::worker
