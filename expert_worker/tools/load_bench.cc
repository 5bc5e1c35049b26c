#include "expert_worker/tools/load_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/weights/input_file.h"
#include "common/weights/range_reader.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/experts/packed_shard.h"
#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/tools/bench_timing.h"
#include "expert_worker/tools/machine_limits.h"

namespace numoe::worker {
namespace {

constexpr size_t kHugePage = 2 << 20;
constexpr size_t kCopyBytes = size_t{2} << 30;
constexpr std::chrono::milliseconds kHold{3000};
constexpr size_t kSpareBytes = 256 << 20;  // in addition to the slice, for staging
constexpr size_t kDirectRead = 4 << 20;
constexpr int kDirectDepth = 32;
static_assert(kDirectRead % kReadAlignment == 0, "direct reads begin and end on whole blocks");
static_assert(kCopyBytes / 2 % kHugePage == 0, "no copied page may exceed the source");

double SecondsOf(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns a line of /proc/self/status in bytes.
uint64_t ProcessMemory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stoull(line.substr(key.size() + 1)) << 10;
  }
  return 0;
}
void ResetPeakMemory() { std::ofstream("/proc/self/clear_refs") << 5; }

// The first and last byte of a file that belong to the slice's matrices.
using Extents = std::map<const MappedFile*, std::pair<uint64_t, uint64_t>>;

// What is loaded: how, from which files, and how much memory it takes.
struct Loading {
  std::vector<MappedFile> shards;  // of a packed model
  Extents extents;
  size_t slice_bytes = 0;
  std::function<absl::StatusOr<ExpertSlice>(LoadProgress&)> load;
};

size_t SliceBytes(const SliceLayout& layout, const ModelConfig& config) {
  size_t bytes = 0;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (config.layer_is_moe[static_cast<size_t>(layer)]) bytes += layout.layer_bytes(layer);
  }
  return bytes;
}

Extents ExtentsOf(const Checkpoint& checkpoint, const ModelConfig& config) {
  Extents extents;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    for (ExpertId expert = 0; expert < config.num_experts; ++expert) {
      const auto views = LocateExpert(checkpoint, config, layer, expert);
      if (!views.ok()) continue;  // the load reports the error
      for (const MatrixView& view : *views) {
        const MappedFile* file = checkpoint.FileOf(view.data);
        if (file == nullptr) continue;
        const auto begin = static_cast<uint64_t>(view.data.data() - file->bytes().data());
        auto& [first, last] = extents.try_emplace(file, UINT64_MAX, 0).first->second;
        first = std::min(first, begin / kReadAlignment * kReadAlignment);
        last = std::max(last, begin + view.data.size());
      }
    }
  }
  return extents;
}

absl::StatusOr<Loading> LoadingOfCheckpoint(const LoadBenchOptions& options, ThreadPool& pool) {
  Loading loading;
  ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::Open(options.model));
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(options.model));
  const SliceSpec spec{.worker_count = options.worker_count};
  ASSIGN_OR_RETURN(const std::optional<WeightFormat> format, ParseWeightFormatOrAuto(options.format));
  ASSIGN_OR_RETURN(std::vector<ExpertFormats> formats, ChooseFormats(*checkpoint, config, spec, format));
  ASSIGN_OR_RETURN(const SliceLayout layout, SliceLayout::Plan(config, spec, std::move(formats)));
  loading.slice_bytes = SliceBytes(layout, config);
  loading.extents = ExtentsOf(*checkpoint, config);
  loading.load = [checkpoint, config, spec, format, &pool](LoadProgress& progress) {
    return LoadSlice(*checkpoint, config, spec, format, pool, {.progress = &progress});
  };
  return loading;
}

absl::StatusOr<Loading> LoadingOfShards(const LoadBenchOptions& options, ThreadPool& pool) {
  Loading loading;
  ASSIGN_OR_RETURN(const PackedModel model, ReadManifest(options.model));
  const SliceSpec spec{.mode = model.mode, .worker_count = model.worker_count};
  ASSIGN_OR_RETURN(const SliceLayout layout, SliceLayout::Plan(model.config, spec, model.formats));
  loading.slice_bytes = SliceBytes(layout, model.config);
  for (LayerId layer = 0; layer < model.config.num_layers; ++layer) {
    if (!model.config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    ASSIGN_OR_RETURN(MappedFile shard, MappedFile::Open(model.dir / ShardName(spec, layer)));
    loading.shards.push_back(std::move(shard));
  }
  for (const MappedFile& shard : loading.shards)
    loading.extents[&shard] = {kShardDataOffset, shard.bytes().size()};
  loading.load = [model, spec, map = options.packed == "map", &pool](LoadProgress& progress) {
    return LoadPackedSlice(model, spec, std::nullopt, pool, {.map = map, .progress = &progress});
  };
  return loading;
}

class LoadBench {
 public:
  LoadBench(const Loading& loading, const LoadBenchOptions& options, ThreadPool& pool)
      : loading_(loading), options_(options), pool_(pool) {}

  absl::Status Run() {
    if (!options_.json)
      std::puts("from              GB   seconds      GB/s     limit     share    memory  past the cache");
    RETURN_IF_ERROR(RunFrom(
        "page cache", [&] { return ReadIntoCache(); }, [&] { return Copy(); }));
    return RunFrom(
        "disk", [&] { return DropFromCache(); }, [&] { return ReadDirect(); });
  }

 private:
  template <typename Prepare, typename Limit>
  absl::Status RunFrom(const char* source, Prepare prepare, Limit measure_limit) {
    std::vector<double> rates, limits, shares;
    double memory = 0, direct = 0;
    for (int round = 0; round < options_.rounds; ++round) {
      RETURN_IF_ERROR(prepare());
      ASSIGN_OR_RETURN(const double limit, measure_limit());
      RETURN_IF_ERROR(prepare());
      RETURN_IF_ERROR(TouchMemory());
      LoadProgress progress;
      ResetPeakMemory();
      const uint64_t before = ProcessMemory("VmRSS");
      ASSIGN_OR_RETURN(const ExpertSlice slice, loading_.load(progress));
      const uint64_t peak = ProcessMemory("VmHWM") - before;
      memory = std::max(memory, static_cast<double>(peak) / static_cast<double>(slice.bytes) - 1);
      bytes_ = progress.bytes_total();
      formats_ = slice.format_names;
      direct = static_cast<double>(progress.bytes_direct()) / static_cast<double>(bytes_);
      rates.push_back(static_cast<double>(bytes_) / progress.seconds() / 1e9);
      limits.push_back(limit);
      shares.push_back(rates.back() / limit);
    }
    Print(source, Median(rates), Median(limits), Median(shares), memory, direct);
    return absl::OkStatus();
  }

  void Print(const char* source, double rate, double limit, double share, double memory,
             double direct) const {
    const double gigabytes = static_cast<double>(bytes_) / 1e9;
    const std::string line =
        options_.json
            ? fmt::format(
                  R"({{"from": "{}", "format": "{}", "threads": {}, "bytes": {}, "seconds": {:.3f}, )"
                  R"("gb_per_s": {:.3f}, "limit_gb_per_s": {:.3f}, "share": {:.3f}, "memory_over": {:.4f}, )"
                  R"("direct_share": {:.3f}}})",
                  source, formats_, pool_.threads(), bytes_, gigabytes / rate, rate, limit, share, memory,
                  direct)
            : fmt::format("{:12} {:8.2f} {:9.2f} {:9.2f} {:9.2f} {:8.1f}% {:8.1f}% {:14.0f}%", source,
                          gigabytes, gigabytes / rate, rate, limit, 100 * share, 100 * memory, 100 * direct);
    std::puts(line.c_str());
    std::fflush(stdout);
  }

  absl::Status ReadIntoCache() {
    for (const auto& [file, extent] : loading_.extents) {
      if (madvise(const_cast<std::byte*>(file->bytes().data()), file->bytes().size(), MADV_POPULATE_READ) !=
          0)
        return absl::ResourceExhaustedError(file->path().string() + ": does not fit the page cache");
      // Only the file's cache is needed, not pages of this process.
      madvise(const_cast<std::byte*>(file->bytes().data()), file->bytes().size(), MADV_DONTNEED);
    }
    return absl::OkStatus();
  }

  absl::Status DropFromCache() {
    for (const auto& [file, extent] : loading_.extents) {
      ASSIGN_OR_RETURN(const auto input, InputFile::Open(*file, false));
      input->DropCache(0, file->bytes().size());
    }
    return absl::OkStatus();
  }

  // Allocates the memory that is going to be used, and frees it. If a hypervisor reclaims free memory, the
  // first touch of a page costs 20 times as much as a later one, and would dominate what is measured. The
  // memory is held for a while first, because the hypervisor is told some time after memory becomes free, and
  // what this process frees between rounds should be what it takes again.
  absl::Status TouchMemory() {
    ASSIGN_OR_RETURN(const NodeMemory memory,
                     NodeMemory::Allocate(std::max(loading_.slice_bytes, kCopyBytes) + kSpareBytes));
    pool_.Run(static_cast<int>(memory.size() / kHugePage),
              [&](int page, int) { memory.data()[static_cast<size_t>(page) * kHugePage] = std::byte{1}; });
    std::this_thread::sleep_for(kHold);
    return absl::OkStatus();
  }

  // Measures the GB/s of copying memory into fresh huge pages. Each thread takes whole pages, so that none
  // waits for another that allocates a page.
  absl::StatusOr<double> Copy() {
    if (copy_source_.size() == 0) {
      ASSIGN_OR_RETURN(copy_source_, NodeMemory::Allocate(kCopyBytes / 2));
      std::memset(copy_source_.data(), 1, copy_source_.size());
    }
    RETURN_IF_ERROR(TouchMemory());
    ASSIGN_OR_RETURN(const NodeMemory target, NodeMemory::Allocate(kCopyBytes));
    const double seconds = SecondsOf([&] {
      pool_.Run(static_cast<int>(kCopyBytes / kHugePage), [&](int page, int) {
        const size_t at = static_cast<size_t>(page) * kHugePage;
        std::memcpy(target.data() + at, copy_source_.data() + at % copy_source_.size(), kHugePage);
      });
    });
    return static_cast<double>(kCopyBytes) / seconds / 1e9;
  }

  // Measures the GB/s of reading the files sequentially without the page cache, with many large reads in
  // flight, into a few buffers.
  absl::StatusOr<double> ReadDirect() {
    ASSIGN_OR_RETURN(const NodeMemory buffers, NodeMemory::Allocate(kDirectDepth * kDirectRead));
    std::memset(buffers.data(), 0, buffers.size());
    RangeReader reader({.depth = kDirectDepth});
    uint64_t bytes = 0;
    absl::Status status;
    std::vector<uint64_t> idle;
    for (uint64_t i = 0; i < kDirectDepth; ++i) idle.push_back(i);
    const auto await = [&] {
      const RangeReader::Done done = reader.Await();
      if (status.ok()) status = done.status;
      idle.push_back(done.tag);
    };
    std::vector<std::unique_ptr<InputFile>> open;
    const double seconds = SecondsOf([&] {
      for (const auto& [file, extent] : loading_.extents) {
        absl::StatusOr<std::unique_ptr<InputFile>> input = InputFile::Open(*file, true);
        if (!input.ok()) {
          status = input.status();
          break;
        }
        open.push_back(*std::move(input));
        for (uint64_t at = extent.first; at < extent.second; at += kDirectRead) {
          if (idle.empty()) await();
          const uint64_t buffer = idle.back();
          NUMOE_DCHECK_LT(buffer, uint64_t{kDirectDepth});
          idle.pop_back();
          const size_t needed = std::min<uint64_t>(kDirectRead, extent.second - at);
          reader.Begin(*open.back(), at, absl::MakeSpan(buffers.data() + buffer * kDirectRead, kDirectRead),
                       needed, buffer);
          bytes += needed;
        }
      }
      while (reader.in_flight() > 0) await();
      NUMOE_CHECK_EQ(idle.size(), size_t{kDirectDepth}) << "every buffer must be idle again";
    });
    RETURN_IF_ERROR(status);
    return static_cast<double>(bytes) / seconds / 1e9;
  }

  static double Median(std::vector<double> values) {
    NUMOE_CHECK(!values.empty());
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  const Loading& loading_;
  const LoadBenchOptions& options_;
  ThreadPool& pool_;
  NodeMemory copy_source_;
  uint64_t bytes_ = 0;
  std::string formats_;
};

absl::Status RunAll(const LoadBenchOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int> cpus, BenchCpus(options.threads));
  ThreadPool pool({.name = "load", .cpus = cpus});
  PinTo(cpus.front());
  ASSIGN_OR_RETURN(const Loading loading, IsPackedModel(options.model) ? LoadingOfShards(options, pool)
                                                                       : LoadingOfCheckpoint(options, pool));
  return LoadBench(loading, options, pool).Run();
}

}  // namespace

int RunLoadBench(const LoadBenchOptions& options) {
  const absl::Status status = RunAll(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "numoe-kernel-bench: %s\n", std::string(status.message()).c_str());
  return 2;
}

}  // namespace numoe::worker
