// A folder of packed shards: what numoe-pack writes and a worker takes its slice from.
//
// Holds numoe-pack.json (the manifest, which names what all shards have in common), the model's config.json
// and a shard for each MoE layer and worker. A worker that maps its shards shares them with the page cache:
// it starts in the time of reading them once through, and again in that of checking them. Their pages are
// huge where the file system's are (XFS, ext4 from Linux 6.16), as long as nobody read the file before in
// small ones: that leaves the page cache with those. One that copies reads past the page cache into huge
// pages of its nodes. Either way every checksum is checked before a weight is used. A mapped shard must not
// be changed while a worker lives; it never is by numoe-pack, which only renames new ones into place.
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
  uint64_t model_fingerprint = 0;  // of the checkpoint that was packed (fingerprint.h): a worker's answer
  ModelConfig config;              // sizes and MoE layers only
};

/// Whether `dir` has a manifest.
bool IsPackedModel(const std::filesystem::path& dir);
absl::StatusOr<PackedModel> ReadManifest(const std::filesystem::path& dir);
/// Replaces the manifest of model.dir at once or not at all.
absl::Status WriteManifest(const PackedModel& model);
/// The manifest's text, and back; `name` is for errors. ParseManifest leaves `dir` empty. FailedPrecondition:
/// an older program packed it.
std::string SerialiseManifest(const PackedModel& model);
absl::StatusOr<PackedModel> ParseManifest(std::string_view text, const std::string& name);

struct PackedLoadOptions {
  bool map = true;                   // false: copy
  std::vector<int> nodes;            // OS numbers of the nodes the weights should lie on
  bool local_required = false;       // refuse where they do not (memory_place.h)
  MemoryKind memory;                 // where they are copied to
  LoadProgress* progress = nullptr;  // for metrics; null: the log only
  std::function<absl::Status(uint64_t weight_bytes)> ask_for_memory = nullptr;  // ExecutorOptions
};

/// Bytes of free memory that the slice takes where its shards are mapped: none of shards that lie in memory
/// already (tmpfs); others have to stay in the page cache and count like a copy.
absl::StatusOr<uint64_t> MappedBytesToTake(const PackedModel& model, const SliceSpec& spec);

absl::StatusOr<ExpertSlice> LoadPackedSlice(const PackedModel& model, const SliceSpec& spec,
                                            std::optional<WeightFormat> format, ThreadPool& pool,
                                            const PackedLoadOptions& options);

/// Reads every block of a shard and compares its checksum; DataLoss names the first bad one. `progress` may
/// be null.
absl::Status VerifyShard(const std::filesystem::path& path, ThreadPool& pool, LoadProgress* progress);

}  // namespace numoe::worker
