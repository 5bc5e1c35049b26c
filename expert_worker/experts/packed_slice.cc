#include "expert_worker/experts/packed_slice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>

#include "common/base/check.h"
#include "common/base/first_error.h"
#include "common/base/status.h"
#include "common/topology/memory_policy.h"
#include "common/weights/input_file.h"
#include "common/weights/range_reader.h"
#include "common/weights/weights_limits.h"
#include "expert_worker/experts/experts_limits.h"
#include "expert_worker/experts/packed_shard.h"

namespace numoe::worker {
namespace {

constexpr size_t kBlockReads = kShardBlockBytes / limits::kLoadChunkBytes;
static_assert(kBlockReads > 0 && kShardBlockBytes % limits::kLoadChunkBytes == 0);

// A shard that is being read: the file, its header, and where its data goes.
struct OpenShard {
  MappedFile mapped;
  ShardHeader header;
  std::unique_ptr<InputFile> file;
  std::byte* copy = nullptr;  // null if it is mapped

  absl::Span<const std::byte> data() const { return mapped.bytes().subspan(kShardDataOffset); }
};

struct BlockRange {
  size_t shard = 0;
  size_t block = 0;
};

// Runs body(shard, block) for every block of all shards with the pool's threads and returns the first error.
template <typename Body>
absl::Status ForAllBlocks(const std::vector<OpenShard>& shards, ThreadPool& pool, Body body) {
  std::vector<BlockRange> blocks;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    for (size_t block = 0; block < shards[shard].header.checksums.size(); ++block)
      blocks.push_back({shard, block});
  }
  std::atomic<bool> failed = false;
  FirstError first_error;
  pool.Run(static_cast<int>(blocks.size()), [&](int i, int thread) {
    if (failed.load(std::memory_order_relaxed)) return;
    const BlockRange& range = blocks[static_cast<size_t>(i)];
    const absl::Status status = body(shards[range.shard], range.block, thread);
    if (status.ok()) return;
    failed.store(true);
    first_error.Note(status);
  });
  return first_error.status();
}

struct Extent {
  uint64_t offset = 0;  // in the data
  size_t size = 0;
};
Extent ExtentOf(const ShardHeader& header, size_t block) {
  const uint64_t offset = block * kShardBlockBytes;
  NUMOE_CHECK_LT(offset, header.data_bytes);
  return {offset, static_cast<size_t>(std::min(kShardBlockBytes, header.data_bytes - offset))};
}

absl::Status CheckBlock(const OpenShard& shard, size_t block, uint64_t checksum) {
  NUMOE_CHECK_LT(block, shard.header.checksums.size());
  if (checksum == shard.header.checksums[block]) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}: block {} of {} (from byte {} of layer {}'s weights) has checksum {:016x}, "
                  "expected {:016x}: the file is damaged; delete it and convert again",
                  shard.file->path().string(), block, shard.header.checksums.size(), block * kShardBlockBytes,
                  shard.header.layer, checksum, shard.header.checksums[block]));
}

// Computes XXH3 of bytes that arrive piece by piece; each piece is hashed while it is in the second-level
// cache.
class StreamChecksum {
 public:
  StreamChecksum() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }
  void Add(absl::Span<const std::byte> piece) {
    XXH3_64bits_update(state_.get(), piece.data(), piece.size());
  }
  uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

// Reads a block through the page cache, where it stays. It does not read through the mapping, so that a
// truncated file is an error and not a signal.
absl::Status CheckByReading(const OpenShard& shard, size_t block) {
  const Extent extent = ExtentOf(shard.header, block);
  posix_fadvise(shard.file->fd(), static_cast<off_t>(kShardDataOffset + extent.offset),
                static_cast<off_t>(extent.size), POSIX_FADV_WILLNEED);
  std::vector<std::byte> buffer(std::min(extent.size, limits::kLoadCachedChunkBytes));
  StreamChecksum checksum;
  for (size_t at = 0; at < extent.size; at += buffer.size()) {
    const absl::Span<std::byte> piece =
        absl::MakeSpan(buffer).first(std::min(buffer.size(), extent.size - at));
    RETURN_IF_ERROR(
        ReadFully(shard.file->fd(), shard.file->path(), kShardDataOffset + extent.offset + at, piece));
    checksum.Add(piece);
  }
  return CheckBlock(shard, block, checksum.value());
}

// Maps a block, which the kernel reads in huge pages if the file system has them, and checks it in place. It
// asks the kernel for the pages first: if the file was truncated or the disk is bad, that call fails, while
// touching the pages would raise a signal.
absl::Status MapBlock(const OpenShard& shard, size_t block) {
  const Extent extent = ExtentOf(shard.header, block);
  const absl::Span<const std::byte> mapped = shard.data().subspan(extent.offset, extent.size);
  if (madvise(const_cast<std::byte*>(mapped.data()), mapped.size(), MADV_POPULATE_READ) != 0)
    return CheckByReading(shard, block);  // returns what is wrong, or OK: kernels before 5.14 lack this call
  return CheckBlock(shard, block, BlockChecksum(mapped));
}

// Copies a block from the page cache. Returns false if the page cache does not hold all of it.
bool CopyCached(const OpenShard& shard, const Extent& extent, StreamChecksum& checksum) {
  for (size_t at = 0; at < extent.size; at += limits::kLoadCachedChunkBytes) {
    const size_t size = std::min(limits::kLoadCachedChunkBytes, extent.size - at);
    const absl::Span<std::byte> piece(shard.copy + extent.offset + at, size);
    const absl::Span<const std::byte> mapped = shard.data().subspan(extent.offset + at, size);
    if (!shard.file->ReadCached(kShardDataOffset + extent.offset + at, mapped, piece)) return false;
    checksum.Add(piece);
  }
  return true;
}

// Copies a block to its final place. The data's offset and memory are aligned for direct reads. Returns
// whether the block came from the page cache.
absl::StatusOr<bool> CopyBlock(const OpenShard& shard, size_t block, RangeReader& reader) {
  const Extent extent = ExtentOf(shard.header, block);
  StreamChecksum checksum;
  if (CopyCached(shard, extent, checksum)) {
    RETURN_IF_ERROR(CheckBlock(shard, block, checksum.value()));
    return true;
  }
  const absl::Span<std::byte> target(shard.copy + extent.offset, extent.size);
  const size_t whole = extent.size / kReadAlignment * kReadAlignment;
  NUMOE_DCHECK_EQ(reinterpret_cast<uintptr_t>(target.data()) % kReadAlignment, 0u);
  for (size_t at = 0; at < whole; at += limits::kLoadChunkBytes) {
    const size_t size = std::min(limits::kLoadChunkBytes, whole - at);
    reader.Begin(*shard.file, kShardDataOffset + extent.offset + at, target.subspan(at, size), size, 0);
  }
  absl::Status status;
  while (reader.in_flight() > 0) {
    const RangeReader::Done done = reader.Await();
    if (status.ok()) status = done.status;
  }
  RETURN_IF_ERROR(status);
  if (whole < extent.size) {
    RETURN_IF_ERROR(CopyBytes(shard.mapped, shard.data().subspan(extent.offset + whole, extent.size - whole),
                              target.subspan(whole)));
  }
  RETURN_IF_ERROR(CheckBlock(shard, block, BlockChecksum(target)));
  return false;
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

absl::Status CheckManifest(const PackedModel& model, const SliceSpec& spec,
                           std::optional<WeightFormat> wanted) {
  if (spec.worker_count != model.worker_count || spec.mode != model.mode) {
    return absl::FailedPreconditionError(
        fmt::format("{}: packed for {} workers by {}, this is one of {} by {}; start workers as they were "
                    "packed for, or convert "
                    "again with --workers {} --slice {}",
                    model.dir.string(), model.worker_count, SliceModeName(model.mode), spec.worker_count,
                    SliceModeName(spec.mode), spec.worker_count, SliceModeName(spec.mode)));
  }
  if (!wanted) return absl::OkStatus();
  const std::string held = NamesOf(model.formats, model.config);
  const std::string_view name = WeightFormatName(*wanted);
  if (held == name) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: packed as {}, --format={}; leave --format at auto, or convert again with --format {}",
                  model.dir.string(), held, name, name));
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
          fmt::format("{}: is missing: the conversion did not finish; run numoe-pack convert again, it "
                      "continues where it stopped",
                      path.string()));
    }
    RETURN_IF_ERROR(shard.status());
    RETURN_IF_ERROR(
        MatchShard(shard->header, DescribeShard(layout, layer, model.model_fingerprint), path.string()));
    shards.push_back(*std::move(shard));
  }
  return shards;
}

void BeginProgress(const std::vector<OpenShard>& shards, LoadProgress& progress) {
  uint64_t bytes = 0;
  for (const OpenShard& shard : shards) bytes += shard.header.data_bytes;
  progress.Begin(bytes);
}

// Returns the bytes of free memory that the load takes. Reserved huge pages are not free memory, and a mapped
// file in memory (tmpfs) has its memory already. Files that are mapped from a disk have to stay in the page
// cache, so they count like a copy.
uint64_t BytesToTake(const std::vector<OpenShard>& shards, const PackedLoadOptions& options) {
  if (options.memory.pages != HugePages::kTransparent) return 0;
  uint64_t bytes = 0;
  for (const OpenShard& shard : shards)
    if (!options.map || !shard.file->in_memory()) bytes += shard.header.data_bytes;
  return bytes;
}

absl::Status CheckUnchanged(const std::vector<OpenShard>& shards) {
  for (const OpenShard& shard : shards) RETURN_IF_ERROR(shard.file->CheckUnchanged());
  return absl::OkStatus();
}

// Maps and checks all blocks. A thread waits while the kernel reads two huge pages for it, so there are more
// threads than CPUs, enough to keep a disk busy.
absl::Status MapAll(const std::vector<OpenShard>& shards, const ThreadPool& pool, LoadProgress& progress) {
  for (const OpenShard& shard : shards)
    madvise(const_cast<std::byte*>(shard.data().data()), shard.data().size(), MADV_HUGEPAGE);
  std::vector<int> cpus(pool.cpus().begin(), pool.cpus().end());
  NUMOE_CHECK(!cpus.empty());
  for (size_t i = 0; cpus.size() < limits::kMappingThreadsMin; ++i) cpus.push_back(cpus[i]);
  ThreadPool waiting({.name = "weight-map", .cpus = std::move(cpus)});
  BeginProgress(shards, progress);
  const absl::Status mapped = ForAllBlocks(shards, waiting, [&](const OpenShard& shard, size_t block, int) {
    RETURN_IF_ERROR(MapBlock(shard, block));
    progress.Add(ExtentOf(shard.header, block).size, /*direct=*/false);
    return absl::OkStatus();
  });
  RETURN_IF_ERROR(mapped);
  return CheckUnchanged(shards);
}

// Copies and checks all blocks.
absl::Status CopyAll(const std::vector<OpenShard>& shards, ThreadPool& pool, LoadProgress& progress) {
  BeginProgress(shards, progress);
  std::vector<std::unique_ptr<RangeReader>> readers(static_cast<size_t>(pool.threads()));
  const absl::Status copied =
      ForAllBlocks(shards, pool, [&](const OpenShard& shard, size_t block, int thread) {
        auto& reader = readers[static_cast<size_t>(thread)];
        if (reader == nullptr)
          reader = std::make_unique<RangeReader>(RangeReaderOptions{.depth = kBlockReads});
        ASSIGN_OR_RETURN(const bool cached, CopyBlock(shard, block, *reader));
        progress.Add(ExtentOf(shard.header, block).size, !cached && shard.file->direct());
        return absl::OkStatus();
      });
  RETURN_IF_ERROR(copied);
  return CheckUnchanged(shards);
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

absl::StatusOr<uint64_t> MappedBytesToTake(const PackedModel& model, const SliceSpec& spec) {
  ASSIGN_OR_RETURN(const SliceLayout layout, SliceLayout::Plan(model.config, spec, model.formats));
  ASSIGN_OR_RETURN(const std::vector<OpenShard> shards, OpenAll(model, layout, /*direct=*/false));
  return BytesToTake(shards, {.map = true});
}

absl::StatusOr<ExpertSlice> LoadPackedSlice(const PackedModel& model, const SliceSpec& spec,
                                            std::optional<WeightFormat> format, ThreadPool& pool,
                                            const PackedLoadOptions& options) {
  RETURN_IF_ERROR(CheckManifest(model, spec, format));
  if (options.map && options.memory != MemoryKind{}) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: packed weights are mapped from their files, which {}; give --packed=copy", model.dir.string(),
        options.memory.shared ? "a GPU cannot read (--share-experts)" : "takes no huge pages (--hugepages)"));
  }
  ASSIGN_OR_RETURN(const SliceLayout layout, SliceLayout::Plan(model.config, spec, model.formats));
  ASSIGN_OR_RETURN(std::vector<OpenShard> shards, OpenAll(model, layout, !options.map));
  if (options.ask_for_memory) RETURN_IF_ERROR(options.ask_for_memory(BytesToTake(shards, options)));
  ExpertSlice slice(layout, model.config);
  LoadProgress log_only;
  LoadProgress& progress = options.progress == nullptr ? log_only : *options.progress;
  const MemoryPlacement placement{.kind = options.memory,
                                  .nodes = options.nodes,
                                  .required = options.local_required,
                                  .progress = options.progress};
  if (options.map) {
    ASSIGN_OR_RETURN(const bool bind, FindRoom(placement, BytesToTake(shards, options)));
    // The pages of a file in the page cache are on the nodes that the policy of the first thread that reads
    // them says.
    const ScopedMemoryPolicy policy(bind ? MemoryPolicy::kBind : MemoryPolicy::kLocal, options.nodes);
    RETURN_IF_ERROR(MapAll(shards, pool, progress));
  } else {
    ASSIGN_OR_RETURN(slice.memory, SliceMemory::Reserve(layout, model.config, placement, pool));
    for (OpenShard& shard : shards) shard.copy = slice.memory.layer(shard.header.layer);
    RETURN_IF_ERROR(CopyAll(shards, pool, progress));
    RETURN_IF_ERROR(slice.memory.Seal());
  }
  progress.Finish(fmt::format("{} packed layers", shards.size()));
  for (OpenShard& shard : shards) {
    slice.AddLayer(layout, shard.header.layer, options.map ? shard.data().data() : shard.copy);
    if (options.map) slice.shards.push_back(std::move(shard.mapped));
  }
  if (options.map && LocalShare(slice.Spans(), options.nodes).value_or(1) < 1)
    MoveToNodes(slice.Spans(), options.nodes, [&options](uint64_t bytes) {
      if (options.progress != nullptr) options.progress->AddPages(bytes);
    });
  return slice;
}

absl::Status VerifyShard(const std::filesystem::path& path, ThreadPool& pool, LoadProgress* progress) {
  ASSIGN_OR_RETURN(OpenShard shard, Open(path, /*direct=*/false));
  std::vector<OpenShard> shards;
  shards.push_back(std::move(shard));
  return ForAllBlocks(shards, pool, [&](const OpenShard& open, size_t block, int) {
    RETURN_IF_ERROR(CheckByReading(open, block));
    const Extent extent = ExtentOf(open.header, block);
    open.file->DropCache(kShardDataOffset + extent.offset, extent.size);
    if (progress != nullptr) progress->Add(extent.size, false);
    return absl::OkStatus();
  });
}

}  // namespace numoe::worker
