// LoadMatrices: reads stored matrices from their files, checks them and packs them, all three at once.
//
// The pool's threads each keep a few reads in flight and pack what has arrived, so the disk never waits for
// the packing nor the packing for the disk. Matrices are cut into pieces of whole panels; pieces are read in
// the order in which they lie on disk. What the page cache holds is copied from there, the rest is read past
// it, into buffers whose sum is bounded (experts_limits.h), and packed straight to where it stays. Errors
// name the file and the tensor: DataLoss where bytes are missing, InvalidArgument where they make no sense,
// Unavailable where a file changed meanwhile. `out` is undefined then.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/kernels/kernels.h"
#include "common/threading/thread_pool.h"
#include "common/topology/node_memory.h"
#include "common/weights/checkpoint.h"
#include "expert_worker/experts/load_progress.h"

namespace numoe::worker {

/// One matrix to load: a rectangle of what is stored, and where its packed bytes go.
struct MatrixLoad {
  MatrixView stored;                          // located (Checkpoint::LocateMatrix), not read
  WeightFormat format = WeightFormat::kBf16;  // to pack it in
  int64_t row_begin = 0;                      // a multiple of kPanelRows
  int rows = 0;
  int64_t col_begin = 0;
  int cols = 0;
  absl::Span<std::byte> out;  // PackedBytes(format, rows, cols), 64-byte aligned
};

struct LoadOptions {
  bool io_uring = true;              // false: helper threads, even where io_uring is allowed
  bool direct = true;                // false: through the page cache
  LoadProgress* progress = nullptr;  // for metrics; null: the log only
  MemoryKind memory;                 // of a slice
  std::vector<int> nodes;            // OS numbers of the nodes it should lie on
  bool local_required = false;       // refuse where it does not (memory_place.h)
  std::function<absl::Status(uint64_t weight_bytes)> ask_for_memory = nullptr;  // of a slice: ExecutorOptions
};

absl::Status LoadMatrices(const Checkpoint& checkpoint, const std::vector<MatrixLoad>& matrices,
                          ThreadPool& pool, const LoadOptions& options, LoadProgress& progress);

}  // namespace numoe::worker
