// MappedWeights: where each layer is in the memory of a worker that lets coordinators on its host map its
// weights.
//
// A directory that is exchanged in the handshake. The memory itself is a sealed memfd whose descriptor is
// passed over the mailbox socket. A layer's block contains the worker's experts one after the other in
// ascending order: with slice=expert those with expert % count == index, otherwise all. An expert is gate
// [width, hidden], up [width, hidden] and down [hidden, width] in the packed layouts of
// common/kernels/CONTRACT.md, where rows and columns `first` to first + width are the slice's part of the
// intermediate dimension. A value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"

namespace numoe {

struct MappedLayer {
  LayerId layer = 0;
  uint64_t offset = 0;        // in the memory, a multiple of 2 MiB
  uint64_t expert_bytes = 0;  // of one expert
  std::string up_format;      // of gate and up, a WeightFormat's name
  std::string down_format;
  bool operator==(const MappedLayer&) const = default;
};

struct MappedWeights {
  uint64_t bytes = 0;  // of the memory
  int width = 0;
  int64_t first = 0;
  std::vector<MappedLayer> layers;  // MoE layers, ascending
  bool operator==(const MappedWeights&) const = default;
};

inline constexpr uint64_t kMappedLayerAlignment = uint64_t{2} << 20;

// What a coordinator sends over the mailbox socket once it has the segment's descriptor.
inline constexpr char kAttached = 'A';     // the segment is mapped, and calls may come
inline constexpr char kWantWeights = 'E';  // asks for the descriptor of the weights

}  // namespace numoe
