#include "expert_worker/pack/convert.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <sstream>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/threading/thread_binding.h"
#include "common/topology/available_memory.h"
#include "common/weights/input_file.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/experts/packed_shard.h"
#include "expert_worker/experts/packed_slice.h"

namespace numoe::worker {
namespace {

namespace fs = std::filesystem;
constexpr double kGib = 1 << 30;

struct Job {
  LayerId layer = 0;
  const SliceLayout* layout = nullptr;
};

// Holds the lock until it is closed, at the latest by the end of the process.
absl::StatusOr<FileDescriptor> LockFolder(const fs::path& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  FileDescriptor folder(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (error || folder.get() < 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: cannot be created or opened as a folder; give --out a folder that can be written to",
                    dir.string()));
  }
  if (flock(folder.get(), LOCK_EX | LOCK_NB) != 0)
    return absl::FailedPreconditionError(
        fmt::format("{}: another numoe-pack works in this folder", dir.string()));
  return folder;
}

// Removes the shards of an older program. They do not say which weights they contain, so no worker accepts
// them any more. A worker that has mapped them keeps them until it ends.
absl::Status RemoveOldShards(const fs::path& dir) {
  LogWarning("{}: an older program packed this folder; everything is converted again", dir.string());
  std::error_code error;
  for (auto it = fs::directory_iterator(dir, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (it->path().extension() == kShardExtension) fs::remove(it->path(), error);
    if (error) break;
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(fmt::format(
      "{}: an older program's shards cannot be removed: {}; empty the folder, or give --out another",
      dir.string(), error.message()));
}

// Returns a manifest's lines without those that differ between versions of the manifest for the same model.
std::string WhatWasAskedFor(const std::string& manifest) {
  std::istringstream lines(manifest);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const bool identity = line.find("\"version\"") != std::string::npos ||
                          line.find("\"model_fingerprint\"") != std::string::npos;
    if (!identity) kept += line + "\n";
  }
  return kept;
}

// Removes an older program's shards if they have the same shapes and formats and are for the same number of
// workers, that is, if they are what is asked for again.
absl::Status ReplaceOldShards(const PackedModel& model) {
  constexpr uint64_t kManifestBytesMax = 1 << 20;
  ASSIGN_OR_RETURN(const std::string found, ReadTextFile(model.dir / kManifestName, kManifestBytesMax));
  if (WhatWasAskedFor(found) != WhatWasAskedFor(SerialiseManifest(model))) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: holds what an older program packed of another model, or in other formats or slices; give --out "
        "another folder, or empty this one",
        model.dir.string()));
  }
  RETURN_IF_ERROR(RemoveOldShards(model.dir));
  return WriteManifest(model);
}

absl::Status PrepareFolder(const PackedModel& model) {
  if (!IsPackedModel(model.dir)) return WriteManifest(model);
  const absl::StatusOr<PackedModel> read = ReadManifest(model.dir);
  if (absl::IsFailedPrecondition(read.status())) return ReplaceOldShards(model);
  RETURN_IF_ERROR(read.status());
  const PackedModel& found = *read;
  if (SerialiseManifest(found) == SerialiseManifest(model)) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{}: holds shards of model {:016x} as {} for {} workers by {}, asked for model {:016x} as {} for {} by "
      "{}; give --out another folder, or empty this one",
      model.dir.string(), found.model_fingerprint, NamesOf(found.formats, found.config), found.worker_count,
      SliceModeName(found.mode), model.model_fingerprint, NamesOf(model.formats, model.config),
      model.worker_count, SliceModeName(model.mode)));
}

class Converter {
 public:
  Converter(const Checkpoint& checkpoint, const ModelConfig& config, PackedModel model,
            const ConvertOptions& options, ConvertProgress& progress)
      : checkpoint_(checkpoint),
        config_(config),
        model_(std::move(model)),
        options_(options),
        progress_(progress),
        pool_({.name = "pack", .cpus = Cpus(options.threads)}) {}

  absl::StatusOr<int> Run() {
    for (int worker = 0; worker < options_.workers; ++worker) {
      const SliceSpec spec{.mode = options_.mode, .worker_index = worker, .worker_count = options_.workers};
      ASSIGN_OR_RETURN(SliceLayout layout, SliceLayout::Plan(config_, spec, model_.formats));
      layouts_.push_back(std::move(layout));
    }
    NUMOE_CHECK_EQ(layouts_.size(), static_cast<size_t>(model_.worker_count));
    ASSIGN_OR_RETURN(const FileDescriptor lock, LockFolder(model_.dir));
    RETURN_IF_ERROR(PrepareFolder(model_));
    ASSIGN_OR_RETURN(const std::vector<Job> jobs, FindMissing());
    RETURN_IF_ERROR(CheckSpace(jobs));
    for (const Job& job : jobs) RETURN_IF_ERROR(WriteOne(job));
    return static_cast<int>(jobs.size());
  }

 private:
  static std::vector<int> Cpus(int threads) {
    std::vector<int> all = CpusOfThisThread();
    NUMOE_CHECK(!all.empty()) << "this thread must have a CPU";
    if (threads <= 0) return all;
    std::vector<int> cpus;
    for (int i = 0; i < threads; ++i) cpus.push_back(all[static_cast<size_t>(i) % all.size()]);
    return cpus;
  }

  fs::path PathOf(const Job& job) const { return model_.dir / ShardName(job.layout->spec(), job.layer); }
  ShardHeader Wanted(const Job& job) const {
    return DescribeShard(*job.layout, job.layer, model_.model_fingerprint);
  }

  absl::StatusOr<std::vector<Job>> FindMissing() {
    std::vector<Job> missing;
    int shards = 0;
    for (LayerId layer = 0; layer < config_.num_layers; ++layer) {
      if (!config_.layer_is_moe[static_cast<size_t>(layer)]) continue;
      for (const SliceLayout& layout : layouts_) {
        ++shards;
        const Job job{layer, &layout};
        const absl::Status there = CheckShard(job);
        if (there.ok()) continue;
        if (!absl::IsNotFound(there)) LogWarning("{}: converting it again", std::string(there.message()));
        missing.push_back(job);
      }
    }
    NUMOE_CHECK_LE(missing.size(), static_cast<size_t>(shards));
    progress_.Begin(shards);
    for (size_t i = missing.size(); i < static_cast<size_t>(shards); ++i) progress_.Skip();
    return missing;
  }

  absl::Status CheckShard(const Job& job) {
    NUMOE_DCHECK(job.layout != nullptr && config_.layer_is_moe[static_cast<size_t>(job.layer)]);
    const fs::path path = PathOf(job);
    ASSIGN_OR_RETURN(const ShardHeader header, ReadShardHeader(path));
    RETURN_IF_ERROR(MatchShard(header, Wanted(job), path.string()));
    return options_.verify ? VerifyShard(path, pool_, nullptr) : absl::OkStatus();
  }

  absl::Status CheckSpace(const std::vector<Job>& jobs) const {
    uint64_t disk = 0, memory = 0;
    for (const Job& job : jobs) {
      disk += kShardDataOffset + job.layout->layer_bytes(job.layer);
      memory = std::max<uint64_t>(memory, job.layout->layer_bytes(job.layer));
    }
    std::error_code error;
    const fs::space_info space = fs::space(model_.dir, error);
    if (!error && space.available < disk) {
      return absl::ResourceExhaustedError(
          fmt::format("{}: the shards take {:.1f} GiB, {:.1f} GiB are free there", model_.dir.string(),
                      static_cast<double>(disk) / kGib, static_cast<double>(space.available) / kGib));
    }
    if (memory > AvailableMemory()) {
      LogWarning(
          "one shard takes {:.1f} GiB of memory, about {:.1f} GiB are available: more --workers make smaller "
          "shards",
          static_cast<double>(memory) / kGib, static_cast<double>(AvailableMemory()) / kGib);
    }
    return absl::OkStatus();
  }

  absl::Status WriteOne(const Job& job) {
    const size_t bytes = job.layout->layer_bytes(job.layer);
    if (block_.size() != bytes) {
      block_ = NodeMemory();  // first, because both blocks might not fit
      ASSIGN_OR_RETURN(block_, NodeMemory::Allocate(bytes));
    }
    NUMOE_CHECK_EQ(block_.size(), bytes);
    std::vector<MatrixLoad> loads;
    RETURN_IF_ERROR(LocateLayer(checkpoint_, config_, *job.layout, job.layer, block_.data(), pool_, loads));
    const std::shared_ptr<LoadProgress> load = progress_.BeginShard();
    RETURN_IF_ERROR(LoadMatrices(checkpoint_, loads, pool_, {}, *load));
    RETURN_IF_ERROR(WriteShard(model_.dir, Wanted(job), block_.bytes(), pool_));
    progress_.FinishShard(bytes);
    return absl::OkStatus();
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const PackedModel model_;
  const ConvertOptions& options_;
  ConvertProgress& progress_;
  ThreadPool pool_;
  std::vector<SliceLayout> layouts_;  // [workers]
  NodeMemory block_;
};

}  // namespace

ConvertProgress::State ConvertProgress::Read() const {
  const MutexLock lock(mutex_);
  State state = state_;
  double done = state.done;
  if (current_ != nullptr && current_->bytes_total() > 0)
    done += static_cast<double>(current_->bytes_done()) / static_cast<double>(current_->bytes_total());
  state.fraction = state.shards == 0 ? 1 : done / state.shards;
  if (begin_ != std::chrono::steady_clock::time_point())
    state.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  return state;
}

void ConvertProgress::Begin(int shards) {
  const MutexLock lock(mutex_);
  NUMOE_CHECK_EQ(state_.shards, 0) << "an object shows the progress of one conversion";
  state_.shards = shards;
}

void ConvertProgress::Skip() {
  const MutexLock lock(mutex_);
  ++state_.done;
  ++state_.skipped;
  NUMOE_CHECK_LE(state_.done, state_.shards);
}

std::shared_ptr<LoadProgress> ConvertProgress::BeginShard() {
  const MutexLock lock(mutex_);
  if (begin_ == std::chrono::steady_clock::time_point()) begin_ = std::chrono::steady_clock::now();
  NUMOE_CHECK(current_ == nullptr) << "one shard at a time";
  current_ = std::make_shared<LoadProgress>();
  return current_;
}

void ConvertProgress::FinishShard(uint64_t bytes) {
  const MutexLock lock(mutex_);
  NUMOE_CHECK(current_ != nullptr && state_.done < state_.shards);
  current_ = nullptr;
  ++state_.done;
  state_.written += bytes;
}

absl::StatusOr<int> Convert(const ConvertOptions& options, ConvertProgress& progress) {
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(options.model));
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(options.model));
  const SliceSpec any_worker{.mode = options.mode, .worker_count = options.workers};
  ASSIGN_OR_RETURN(std::vector<ExpertFormats> formats,
                   ChooseFormats(*checkpoint, config, any_worker, options.format));
  ASSIGN_OR_RETURN(const uint64_t fingerprint, checkpoint->Fingerprint());
  PackedModel model{.dir = options.out,
                    .formats = std::move(formats),
                    .mode = options.mode,
                    .worker_count = options.workers,
                    .model_fingerprint = fingerprint,
                    .config = config};
  return Converter(*checkpoint, config, std::move(model), options, progress).Run();
}

}  // namespace numoe::worker
