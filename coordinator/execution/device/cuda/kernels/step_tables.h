// StepTables: the positions and sequences of a step's rows, in device memory, so that a captured step can be
// replayed.
//
// The device's counterpart of coordinator/execution/device/step_layout.h: filled before each step, read by
// attention, rotation and embedding. Rows beyond the step's tokens, up to the bucket's size, are padding.
#pragma once

#include <cstdint>

namespace numoe::execution::cuda {

struct StepTables {
  const int32_t* positions = nullptr;     // [rows] position within the row's sequence; -1 for padding
  const int32_t* sequences = nullptr;     // [rows] row of block_tables
  const int32_t* block_tables = nullptr;  // [sequences, blocks_per_sequence_max] cache blocks
  int blocks_per_sequence_max = 0;
  const int32_t* tokens = nullptr;  // [rows] token ids
};

}  // namespace numoe::execution::cuda
