// LoadMatrices: reads stored matrices from their files, checks them and packs them, all three at once.
//
// Each of the pool's threads keeps a few reads in flight and packs what has arrived, so neither the disk nor
// the packing waits for the other. Matrices are cut into pieces of whole panels, which are read in the order
// in which they are stored on disk. What the page cache holds is copied from it. The rest is read without the
// page cache into buffers whose sum is bounded (experts_limits.h), and packed directly to its final place.
// Errors name the file and the tensor: DataLoss if bytes are missing, InvalidArgument if their values are
// invalid, Unavailable if a file was changed during the load. After an error, `out` is undefined.
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

/// One matrix to load: a rectangle of the stored matrix, and where its packed bytes go.
struct MatrixLoad {
  MatrixView stored;                          // located (Checkpoint::LocateMatrix), not read yet
  WeightFormat format = WeightFormat::kBf16;  // of the packed bytes
  int64_t row_begin = 0;                      // a multiple of kPanelRows
  int rows = 0;
  int64_t col_begin = 0;
  int cols = 0;
  absl::Span<std::byte> out;  // PackedBytes(format, rows, cols), 64-byte aligned
};

struct LoadOptions {
  bool io_uring = true;              // false means helper threads, even if io_uring is allowed
  bool direct = true;                // false means through the page cache
  LoadProgress* progress = nullptr;  // for metrics; if null, progress is only logged
  MemoryKind memory;                 // of the slice
  std::vector<int> nodes;            // OS numbers of the nodes on which the weights should be
  bool local_required = false;       // refuse to load if they are not (memory_placement.h)
  std::function<absl::Status(uint64_t weight_bytes)> ask_for_memory = nullptr;  // see ExecutorOptions
};

absl::Status LoadMatrices(const Checkpoint& checkpoint, const std::vector<MatrixLoad>& matrices,
                          ThreadPool& pool, const LoadOptions& options, LoadProgress& progress);

}  // namespace numoe::worker
