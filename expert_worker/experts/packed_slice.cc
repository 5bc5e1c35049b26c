#include "expert_worker/experts/packed_slice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <fstream>
#include <mutex>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/weights/input_file.h"
#include "common/weights/range_reader.h"
#include "expert_worker/experts/packed_shard.h"

namespace numoe {
namespace {

constexpr size_t kBlockReads = kShardBlockBytes / limits::kLoadChunkBytes;

// One shard that is being read: the file, what its header promises, and where its data goes.
struct OpenShard {
  MappedFile mapped;
  ShardHeader header;
  std::unique_ptr<InputFile> file;
  std::byte* copy = nullptr;  // null: it is mapped

  absl::Span<const std::byte> data() const { return mapped.bytes().subspan(kShardDataOffset); }
};

struct BlockRange {
  size_t shard = 0;
  size_t block = 0;
};

// Runs body(shard, block) for every block of all shards by the pool's threads; the first error.
template <typename Body>
absl::Status ForAllBlocks(const std::vector<OpenShard>& shards, ThreadPool& pool, Body body) {
  std::vector<BlockRange> blocks;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    for (size_t block = 0; block < shards[shard].header.checksums.size(); ++block)
      blocks.push_back({shard, block});
  }
  std::mutex mutex;
  std::atomic<bool> failed = false;
  absl::Status first_error;
  pool.Run(static_cast<int>(blocks.size()), [&](int i, int thread) {
    if (failed.load(std::memory_order_relaxed)) return;
    const BlockRange& range = blocks[static_cast<size_t>(i)];
    const absl::Status status = body(shards[range.shard], range.block, thread);
    if (status.ok()) return;
    failed.store(true);
    const std::lock_guard lock(mutex);
    if (first_error.ok()) first_error = status;
  });
  return first_error;
}

struct Extent {
  uint64_t offset = 0;  // in the data
  size_t size = 0;
};
Extent ExtentOf(const ShardHeader& header, size_t block) {
  const uint64_t offset = block * kShardBlockBytes;
  return {offset, static_cast<size_t>(std::min(kShardBlockBytes, header.data_bytes - offset))};
}

absl::Status CheckBlock(const OpenShard& shard, size_t block, uint64_t checksum) {
  if (checksum == shard.header.checksums[block]) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}: block {} of {} (bytes {} and on of layer {}'s weights) has checksum {:016x}, "
                  "expected {:016x}: the file is damaged; delete it and convert again",
                  shard.file->path().string(), block, shard.header.checksums.size(), block * kShardBlockBytes,
                  shard.header.layer, checksum, shard.header.checksums[block]));
}

// Reads a block through the page cache, where it stays, in pieces that fit the second-level cache; not
// through the mapping, so that a file that somebody cuts short is an error.
absl::Status ReadCachedBlock(const OpenShard& shard, size_t block) {
  const Extent extent = ExtentOf(shard.header, block);
  posix_fadvise(shard.file->fd(), static_cast<off_t>(kShardDataOffset + extent.offset),
                static_cast<off_t>(extent.size), POSIX_FADV_WILLNEED);
  std::vector<std::byte> buffer(std::min(extent.size, limits::kLoadCachedChunkBytes));
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  absl::Status status;
  for (size_t at = 0; at < extent.size && status.ok(); at += buffer.size()) {
    const absl::Span<std::byte> piece =
        absl::MakeSpan(buffer).first(std::min(buffer.size(), extent.size - at));
    status = ReadFully(shard.file->fd(), shard.file->path(), kShardDataOffset + extent.offset + at, piece);
    XXH3_64bits_update(state, piece.data(), piece.size());
  }
  const uint64_t checksum = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  RETURN_IF_ERROR(status);
  return CheckBlock(shard, block, checksum);
}

// Straight to where it stays: the data's offset and memory are aligned for direct reads.
absl::Status CopyBlock(const OpenShard& shard, size_t block, RangeReader& reader) {
  const Extent extent = ExtentOf(shard.header, block);
  const uint64_t offset = kShardDataOffset + extent.offset;
  const absl::Span<std::byte> target(shard.copy + extent.offset, extent.size);
  if (!shard.file->ReadCached(offset, shard.data().subspan(extent.offset, extent.size), target)) {
    const size_t whole = extent.size / kReadAlignment * kReadAlignment;
    for (size_t at = 0; at < whole; at += limits::kLoadChunkBytes) {
      const size_t size = std::min(limits::kLoadChunkBytes, whole - at);
      reader.Begin(*shard.file, offset + at, target.subspan(at, size), size, 0);
    }
    absl::Status status;
    while (reader.in_flight() > 0) {
      const RangeReader::Done done = reader.Await();
      if (status.ok()) status = done.status;
    }
    RETURN_IF_ERROR(status);
    if (whole == extent.size) return CheckBlock(shard, block, BlockChecksum(target));
    RETURN_IF_ERROR(CopyBytes(shard.mapped, shard.data().subspan(extent.offset + whole, extent.size - whole),
                              target.subspan(whole)));
  }
  return CheckBlock(shard, block, BlockChecksum(target));
}

absl::StatusOr<OpenShard> Open(const std::filesystem::path& path, bool direct) {
  OpenShard shard;
  ASSIGN_OR_RETURN(shard.header, ReadShardHeader(path));
  ASSIGN_OR_RETURN(shard.mapped, MappedFile::Open(path));
  ASSIGN_OR_RETURN(shard.file, InputFile::Open(shard.mapped, direct));
  if (shard.mapped.bytes().size() != kShardDataOffset + shard.header.data_bytes)
    return shard.file->CheckUnchanged();
  return shard;
}

absl::Status CheckManifest(const PackedModel& model, const SliceSpec& spec, const std::string& format) {
  if (spec.worker_count != model.worker_count || spec.mode != model.mode) {
    return absl::FailedPreconditionError(
        fmt::format("{}: packed for {} workers by {}, this is one of {} by {}; start workers as they were "
                    "packed for, or convert "
                    "again with --workers {} --slice {}",
                    model.dir.string(), model.worker_count, SliceModeName(model.mode), spec.worker_count,
                    SliceModeName(spec.mode), spec.worker_count, SliceModeName(spec.mode)));
  }
  if (format == "auto") return absl::OkStatus();
  ASSIGN_OR_RETURN(const WeightFormat wanted, ParseWeightFormat(format));
  const std::string held = NamesOf(model.formats, model.config);
  if (held == WeightFormatName(wanted)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: packed as {}, --format={}; leave --format at auto, or convert again with --format {}",
                  model.dir.string(), held, format, format));
}

absl::StatusOr<std::vector<OpenShard>> OpenAll(const PackedModel& model, const SliceLayout& layout,
                                               bool direct) {
  const ModelConfig& config = model.config;
  std::vector<OpenShard> shards;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    const std::filesystem::path path = model.dir / ShardName(layout.spec(), layer);
    absl::StatusOr<OpenShard> shard = Open(path, direct);
    if (absl::IsNotFound(shard.status())) {
      return absl::FailedPreconditionError(
          fmt::format("{}: is missing: the conversion did not finish; run numoe-pack convert again, it goes "
                      "on where it stopped",
                      path.string()));
    }
    RETURN_IF_ERROR(shard.status());
    RETURN_IF_ERROR(
        MatchShard(shard->header, DescribeShard(layout, layer, model.model_fingerprint), path.string()));
    shards.push_back(*std::move(shard));
  }
  return shards;
}

// Checks all blocks and has them in this process's memory, mapped or copied.
absl::Status Fetch(const std::vector<OpenShard>& shards, ThreadPool& pool, LoadProgress& progress) {
  uint64_t bytes = 0;
  for (const OpenShard& shard : shards) bytes += shard.header.data_bytes;
  progress.Begin(bytes);
  std::vector<std::unique_ptr<RangeReader>> readers(static_cast<size_t>(pool.threads()));
  const absl::Status fetched =
      ForAllBlocks(shards, pool, [&](const OpenShard& shard, size_t block, int thread) {
        const Extent extent = ExtentOf(shard.header, block);
        if (shard.copy == nullptr) {
          RETURN_IF_ERROR(ReadCachedBlock(shard, block));
          std::byte* mapped = const_cast<std::byte*>(shard.data().data()) + extent.offset;
          madvise(mapped, extent.size, MADV_POPULATE_READ);  // an older kernel maps at the first use instead
        } else {
          auto& reader = readers[static_cast<size_t>(thread)];
          if (reader == nullptr)
            reader = std::make_unique<RangeReader>(RangeReaderOptions{.depth = kBlockReads});
          RETURN_IF_ERROR(CopyBlock(shard, block, *reader));
        }
        progress.Add(extent.size, shard.file->direct());
        return absl::OkStatus();
      });
  RETURN_IF_ERROR(fetched);
  for (const OpenShard& shard : shards) RETURN_IF_ERROR(shard.file->CheckUnchanged());
  return absl::OkStatus();
}

}  // namespace

bool IsPackedModel(const std::filesystem::path& dir) {
  std::error_code error;
  return std::filesystem::exists(dir / kManifestName, error);
}

absl::StatusOr<PackedModel> ReadManifest(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / kManifestName;
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, limits::kJsonFileBytesMax));
  ASSIGN_OR_RETURN(PackedModel model, ParseManifest(text, path.string()));
  model.dir = dir;
  return model;
}

absl::Status WriteManifest(const PackedModel& model) {
  const std::filesystem::path path = model.dir / kManifestName;
  const std::filesystem::path unfinished = path.string() + ".unfinished";
  std::ofstream file(unfinished);
  file << SerialiseManifest(model);
  file.close();
  std::error_code error;
  if (file.good()) std::filesystem::rename(unfinished, path, error);
  if (!file.good() || error)
    return absl::UnavailableError(
        fmt::format("{}: cannot write; is the folder writable, the disk full?", path.string()));
  return absl::OkStatus();
}

absl::StatusOr<ExpertSlice> LoadPackedSlice(const PackedModel& model, const SliceSpec& spec,
                                            const std::string& format, ThreadPool& pool,
                                            const PackedLoadOptions& options) {
  RETURN_IF_ERROR(CheckManifest(model, spec, format));
  if (options.map && options.memory != MemoryKind{}) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: packed weights are mapped from their files, which {}; give --packed=copy", model.dir.string(),
        options.memory.shared ? "a GPU cannot read (--share-experts)" : "takes no huge pages (--hugepages)"));
  }
  ASSIGN_OR_RETURN(const SliceLayout layout, SliceLayout::Plan(model.config, spec, model.formats));
  ASSIGN_OR_RETURN(std::vector<OpenShard> shards, OpenAll(model, layout, !options.map));
  ExpertSlice slice(layout, model.config);
  if (!options.map) {
    ASSIGN_OR_RETURN(slice.memory,
                     SliceMemory::Reserve(layout, model.config, options.memory, options.nodes, pool));
  }
  for (OpenShard& shard : shards) {
    if (options.map) {
      madvise(const_cast<std::byte*>(shard.data().data()), shard.data().size(), MADV_HUGEPAGE);
      continue;
    }
    shard.copy = slice.memory.layer(shard.header.layer);
  }
  LoadProgress log_only;
  LoadProgress& progress = options.progress == nullptr ? log_only : *options.progress;
  RETURN_IF_ERROR(Fetch(shards, pool, progress));
  progress.Finish(fmt::format("{} packed layers", shards.size()));
  for (OpenShard& shard : shards) {
    slice.AddLayer(layout, shard.header.layer, options.map ? shard.data().data() : shard.copy);
    if (options.map) slice.shards.push_back(std::move(shard.mapped));
  }
  if (options.map && LocalShare(slice.Spans(), options.nodes).value_or(1) < 1)
    MoveToNodes(slice.Spans(), options.nodes);
  return slice;
}

absl::Status VerifyShard(const std::filesystem::path& path, ThreadPool& pool, LoadProgress* progress) {
  ASSIGN_OR_RETURN(OpenShard shard, Open(path, /*direct=*/false));
  std::vector<OpenShard> shards;
  shards.push_back(std::move(shard));
  return ForAllBlocks(shards, pool, [&](const OpenShard& open, size_t block, int) {
    RETURN_IF_ERROR(ReadCachedBlock(open, block));
    const Extent extent = ExtentOf(open.header, block);
    open.file->DropCache(kShardDataOffset + extent.offset, extent.size);
    if (progress != nullptr) progress->Add(extent.size, false);
    return absl::OkStatus();
  });
}

}  // namespace numoe
