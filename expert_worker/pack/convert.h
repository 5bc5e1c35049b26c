// Convert: a checkpoint's experts into packed shards, for all workers of a machine or cluster.
//
// One shard at a time: read, checked and packed by all threads as a worker would (the bytes are the same),
// then written. A shard that is complete is skipped, so a conversion that was stopped goes on where it was;
// what another model, format or slicing left in the folder is an error, what an older program packed there is
// removed. Needs memory for one shard. One process at a time works in a folder (a lock says so). Errors name
// the file and what to do.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/kernels/kernels.h"
#include "expert_worker/experts/load_progress.h"
#include "expert_worker/experts/slice_layout.h"

namespace numoe::worker {

struct ConvertOptions {
  std::string model;                                  // checkpoint
  std::filesystem::path out;                          // folder of shards; made if it does not exist
  std::optional<WeightFormat> format = std::nullopt;  // nullopt: as published
  SliceMode mode = SliceMode::kIntermediate;
  int workers = 1;
  int threads = 0;      // 0: every CPU this process may use
  bool verify = false;  // check the data of shards that are there, too, and convert again what is damaged
};

/// What a bar shows. Any thread reads.
class ConvertProgress {
 public:
  struct State {
    int shards = 0;  // in all
    int done = 0;    // written or skipped
    int skipped = 0;
    double fraction = 0;   // of all shards' bytes, 0 to 1
    double seconds = 0;    // since the first shard that was not skipped
    uint64_t written = 0;  // bytes
  };
  State Read() const;

  /// By Convert.
  void Begin(int shards);
  void Skip();
  std::shared_ptr<LoadProgress> BeginShard();
  void FinishShard(uint64_t bytes);

 private:
  mutable Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<LoadProgress> current_ ABSL_GUARDED_BY(mutex_);  // null between shards
  std::chrono::steady_clock::time_point begin_ ABSL_GUARDED_BY(mutex_);
};

/// The number of shards that were written.
absl::StatusOr<int> Convert(const ConvertOptions& options, ConvertProgress& progress);

}  // namespace numoe::worker
