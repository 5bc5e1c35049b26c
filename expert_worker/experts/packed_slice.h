// A folder of packed shards, which numoe-pack writes and from which a worker loads its slice.
//
// It contains numoe-pack.json (the manifest, with what all shards have in common), the model's config.json,
// and a shard for each MoE layer and worker. A worker that maps its shards shares them with the page cache:
// its first start takes as long as reading them once, and later starts take as long as checking them. Their
// pages are huge if the file system supports it (XFS, ext4 since Linux 6.16) and nothing read the file in
// small pages before, because those stay in the page cache. A worker that copies its shards reads them
// without the page cache into huge pages of its nodes. Either way every checksum is checked before a weight
// is used. A mapped shard must not be changed while a worker uses it; numoe-pack never does, it only renames
// new files into place.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/weights/model_config.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/experts/load_progress.h"

namespace numoe::worker {

inline constexpr char kManifestName[] = "numoe-pack.json";

struct PackedModel {
  std::filesystem::path dir;
  std::vector<ExpertFormats> formats;  // [layers]
  SliceMode mode = SliceMode::kIntermediate;
  int worker_count = 1;
  uint64_t model_fingerprint = 0;  // of the packed checkpoint (fingerprint.h); workers report it
  ModelConfig config;              // sizes and MoE layers only
};

/// Returns whether `dir` has a manifest.
bool IsPackedModel(const std::filesystem::path& dir);
absl::StatusOr<PackedModel> ReadManifest(const std::filesystem::path& dir);
/// Replaces the manifest of model.dir atomically.
absl::Status WriteManifest(const PackedModel& model);
/// Converts to the manifest's text and back; `name` is for errors. ParseManifest leaves `dir` empty.
/// FailedPrecondition if an older program packed the folder.
std::string SerialiseManifest(const PackedModel& model);
absl::StatusOr<PackedModel> ParseManifest(std::string_view text, const std::string& name);

struct PackedLoadOptions {
  bool map = true;                   // false means copy
  std::vector<int> nodes;            // OS numbers of the nodes on which the weights should be
  bool local_required = false;       // refuse to load if they are not (memory_placement.h)
  MemoryKind memory;                 // for copies
  LoadProgress* progress = nullptr;  // for metrics; if null, progress is only logged
  std::function<absl::Status(uint64_t weight_bytes)> ask_for_memory = nullptr;  // see ExecutorOptions
};

/// Returns the bytes of free memory that the slice takes if its shards are mapped: 0 for shards in memory
/// (tmpfs); others have to stay in the page cache and count like a copy.
absl::StatusOr<uint64_t> MappedBytesToTake(const PackedModel& model, const SliceSpec& spec);

absl::StatusOr<ExpertSlice> LoadPackedSlice(const PackedModel& model, const SliceSpec& spec,
                                            std::optional<WeightFormat> format, ThreadPool& pool,
                                            const PackedLoadOptions& options);

/// Reads every block of a shard and compares its checksum. DataLoss names the first bad block. `progress` may
/// be null.
absl::Status VerifyShard(const std::filesystem::path& path, ThreadPool& pool, LoadProgress* progress);

}  // namespace numoe::worker
