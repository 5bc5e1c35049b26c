// How decode attention is cut up: context of many rows, of unequal lengths, over the workers of a device.
//
// A worker is a thread block that stays on its multiprocessor. What it does is in lists on the device: pieces
// (a row and a stretch of its context), ordered by row and then by position; worker w takes pieces
// worker_first[w] to worker_first[w + 1]. A row's pieces are row_first[r] to row_first[r + 1]; a row with one
// piece is finished by its worker, the others' partial results are merged by LaunchMergeParts, in order.
//
//   row 0  |=========|====|            pieces 0 1       worker 0: pieces 0       worker 1: 1 2
//   row 1            |====|=======|    pieces 2 3       worker 2: pieces 3 4
//   row 2                         |==| piece  4         every worker has the same number of key tiles
//
// PlanDecode is pure and needs bounds only (rows of the bucket, longest context, the device), so that a step
// can be captured as a graph; LaunchPlanPieces then makes the lists from the positions in device memory, once
// a step, for all layers. Where `exact` is set, a row is cut at fixed positions, whatever else is in the
// step: its result does not hang on the batch.
#pragma once

#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kDecodeRowsMax = 1024;  // the lists are made by one block

struct DecodeBounds {
  int rows = 0;               // of the bucket
  int64_t context_max = 0;    // tokens: of the cache, not of the bucket, where `exact` is set
  int groups = 1;             // blocks that work on one piece beside each other: head groups, or cache heads
  int workers_per_group = 1;  // multiprocessors * blocks on one / groups
  int tile = 64;              // keys that a worker takes at once
  bool exact = false;
};

struct DecodeShape {
  int rows = 0;
  int workers = 0;
  int tile = 0;
  int piece_tiles = 0;  // exact: length of a piece; 0: as the workers' shares are
  int pieces_max = 0;
};

/// REQUIRES: 0 < rows <= kDecodeRowsMax, and all others positive.
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
/// The lists in `memory`, which is 16-byte aligned and DecodeListBytes long.
DecodeLists PlaceLists(const DecodeShape& shape, void* memory);

struct PlanPiecesArgs {
  DecodeShape shape;
  DecodeLists lists;
  const int32_t* positions = nullptr;  // [shape.rows]; -1: padding, which gets no piece
};
void LaunchPlanPieces(const PlanPiecesArgs& args, Stream stream);

/// Partial results: sums [pieces_max, heads, width] not yet divided, and each row's maximum (in the base-2
/// exponent's unit) and total of weights [pieces_max, heads].
struct DecodeParts {
  float* sums = nullptr;
  float* maxima = nullptr;
  float* totals = nullptr;
};
int64_t DecodePartBytes(const DecodeShape& shape, int heads, int width);
DecodeParts PlaceParts(const DecodeShape& shape, int heads, int width, void* memory);

/// out = the rows' merged results; zero for a row without pieces; a row of one piece is left alone.
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
