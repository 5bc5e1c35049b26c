// Convert: packs a checkpoint's experts into shards for all workers of a machine or cluster.
//
// It handles one shard at a time: all threads read, check and pack it as a worker would (the bytes are the
// same), then it is written. A complete shard is skipped, so a conversion that was stopped continues where it
// was. If the folder contains shards of another model, format or slicing, that is an error; what an older
// program packed there is removed. It needs memory for one shard. Only one process at a time works in a
// folder, which a lock ensures. Errors name the file and what to do.
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
  std::filesystem::path out;                          // folder of the shards; created if it does not exist
  std::optional<WeightFormat> format = std::nullopt;  // nullopt means as published
  SliceMode mode = SliceMode::kIntermediate;
  int workers = 1;
  int threads = 0;      // 0 means every CPU that this process may use
  bool verify = false;  // also check the data of existing shards, and convert damaged ones again
};

/// What a progress bar shows. Any thread may read it.
class ConvertProgress {
 public:
  struct State {
    int shards = 0;  // of the whole conversion
    int done = 0;    // written or skipped
    int skipped = 0;
    double fraction = 0;   // of all shards' bytes, 0 to 1
    double seconds = 0;    // since the first shard that was not skipped
    uint64_t written = 0;  // bytes
  };
  State Read() const;

  /// Called by Convert.
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

/// Returns the number of shards that were written.
absl::StatusOr<int> Convert(const ConvertOptions& options, ConvertProgress& progress);

}  // namespace numoe::worker
