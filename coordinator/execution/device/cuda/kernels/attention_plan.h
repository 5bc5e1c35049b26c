// Divides decode attention, the contexts of many rows with unequal lengths, among the workers of a device.
//
// A worker is a thread block that stays on its multiprocessor. Its work is in lists on the device: pieces (a
// row and a stretch of its context), ordered by row and then by position; worker w computes pieces
// worker_first[w] to worker_first[w + 1]. A row's pieces are row_first[r] to row_first[r + 1]; a row with one
// piece is finished by its worker, the partial results of the others are merged by LaunchMergeParts, in
// order.
//
//   row 0  |=========|====|            pieces 0 1       worker 0: pieces 0       worker 1: 1 2
//   row 1            |====|=======|    pieces 2 3       worker 2: pieces 3 4
//   row 2                         |==| piece  4         every worker has the same number of key tiles
//
// PlanDecode is pure and needs only bounds (rows of the bucket, longest context, the device), so that a step
// can be captured as a graph; LaunchPlanPieces then makes the lists from the positions in device memory, once
// per step for all layers. If `exact` is set, a row is divided at fixed positions regardless of the rest of
// the step, so its result does not depend on the batch.
#pragma once

#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kDecodeRowsMax = 1024;  // the lists are made by one block

struct DecodeBounds {
  int rows = 0;               // of the bucket
  int64_t context_max = 0;    // tokens; if `exact`, the limit of the cache, not that of the bucket
  int groups = 1;             // blocks that process one piece at the same time: head groups, or cache heads
  int workers_per_group = 1;  // multiprocessors * blocks on each / groups
  int tile = 64;              // keys that a worker processes at once
  bool exact = false;
};

struct DecodeShape {
  int rows = 0;
  int workers = 0;
  int tile = 0;
  int piece_tiles = 0;  // length of a piece if `exact`; 0: each worker gets an equal share
  int pieces_max = 0;
};

/// REQUIRES: 0 < rows <= kDecodeRowsMax, and all other bounds are positive.
DecodeShape PlanDecode(const DecodeBounds& bounds);

struct DecodePiece {
  int32_t row;
  int32_t begin;  // positions
  int32_t end;
};
struct DecodeLists {
  int32_t* worker_first = nullptr;  // [workers + 1]
  int32_t* row_first = nullptr;     // [rows + 1]
  DecodePiece* pieces = nullptr;    // [pieces_max]
};

int64_t DecodeListBytes(const DecodeShape& shape);
/// Returns the addresses of the lists in `memory`, which is 16-byte aligned and has DecodeListBytes.
DecodeLists PlaceLists(const DecodeShape& shape, void* memory);

struct PlanPiecesArgs {
  DecodeShape shape;
  DecodeLists lists;
  const int32_t* positions = nullptr;  // [shape.rows]; -1 for padding, which gets no piece
};
void LaunchPlanPieces(const PlanPiecesArgs& args, Stream stream);

/// Partial results: sums [pieces_max, heads, width] that are not yet divided, and each row's maximum (as a
/// base-2 exponent) and total of weights [pieces_max, heads].
struct DecodeParts {
  float* sums = nullptr;
  float* maxima = nullptr;
  float* totals = nullptr;
};
int64_t DecodePartBytes(const DecodeShape& shape, int heads, int width);
DecodeParts PlaceParts(const DecodeShape& shape, int heads, int width, void* memory);

/// Writes the merged results of the rows to `out`, and zeros for rows without pieces; does not change rows
/// with one piece.
struct MergePartsArgs {
  DecodeShape shape;
  DecodeLists lists;
  DecodeParts parts;
  int heads = 0;
  int width = 0;        // a multiple of 4
  Bf16* out = nullptr;  // [rows, heads, width]
};
void LaunchMergeParts(const MergePartsArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
