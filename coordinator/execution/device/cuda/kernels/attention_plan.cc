#include "coordinator/execution/device/cuda/kernels/attention_plan.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::execution::cuda {
namespace {

// The shortest exact piece: long enough that its partial result (heads * 512 fp32 written and read: about as
// many bytes as 230 rows of the cache) is a small part of the bytes that are read for it. The number of
// pieces is limited too.
constexpr int64_t kExactPieceKeysMin = 1024;
constexpr int64_t kExactPiecesMax = 64;

int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }
int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

DecodeShape PlanDecode(const DecodeBounds& bounds) {
  NUMOE_CHECK(bounds.rows > 0 && bounds.rows <= kDecodeRowsMax) << bounds.rows << " rows";
  NUMOE_CHECK(bounds.context_max > 0 && bounds.tile > 0 && bounds.workers_per_group > 0);
  DecodeShape shape{.rows = bounds.rows, .workers = bounds.workers_per_group, .tile = bounds.tile};
  if (bounds.exact) {
    const int64_t keys = std::max(kExactPieceKeysMin, CeilDivide(bounds.context_max, kExactPiecesMax));
    shape.piece_tiles = static_cast<int>(CeilDivide(keys, bounds.tile));
    const int64_t pieces = CeilDivide(bounds.context_max, int64_t{1} * shape.piece_tiles * bounds.tile);
    shape.pieces_max = static_cast<int>(bounds.rows * pieces);
  } else {
    // Each piece ends at the end of a row or of a worker's share.
    shape.pieces_max = bounds.rows + shape.workers;
  }
  return shape;
}

int64_t DecodeListBytes(const DecodeShape& shape) {
  return Aligned(int64_t{4} * (shape.workers + 1)) + Aligned(int64_t{4} * (shape.rows + 1)) +
         Aligned(int64_t{sizeof(DecodePiece)} * shape.pieces_max);
}

DecodeLists PlaceLists(const DecodeShape& shape, void* memory) {
  char* at = static_cast<char*>(memory);
  DecodeLists lists;
  lists.worker_first = reinterpret_cast<int32_t*>(at);
  at += Aligned(int64_t{4} * (shape.workers + 1));
  lists.row_first = reinterpret_cast<int32_t*>(at);
  at += Aligned(int64_t{4} * (shape.rows + 1));
  lists.pieces = reinterpret_cast<DecodePiece*>(at);
  return lists;
}

int64_t DecodePartBytes(const DecodeShape& shape, int heads, int width) {
  const int64_t rows = int64_t{shape.pieces_max} * heads;
  return Aligned(rows * width * 4) + 2 * Aligned(rows * 4);
}

DecodeParts PlaceParts(const DecodeShape& shape, int heads, int width, void* memory) {
  const int64_t rows = int64_t{shape.pieces_max} * heads;
  char* const at = static_cast<char*>(memory);
  char* const maxima = at + Aligned(rows * width * 4);
  return {.sums = reinterpret_cast<float*>(at),
          .maxima = reinterpret_cast<float*>(maxima),
          .totals = reinterpret_cast<float*>(maxima + Aligned(rows * 4))};
}

}  // namespace numoe::execution::cuda
