#include "expert_worker/experts/matrix_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>

#include "common/base/check.h"
#include "common/base/first_error.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/topology/node_memory.h"
#include "common/weights/matrix_checks.h"
#include "common/weights/range_reader.h"
#include "expert_worker/experts/experts_limits.h"

namespace numoe::worker {
namespace {

// Rows [row, row + rows) of a matrix, and the rows of scales that belong to them.
struct Piece {
  absl::Span<const std::byte> data;
  absl::Span<const std::byte> scales;
};
Piece PieceOf(const MatrixView& m, int64_t row, int64_t rows) {
  NUMOE_DCHECK(0 <= row && 0 < rows && row + rows <= m.rows);
  NUMOE_DCHECK_EQ(m.data.size() % static_cast<size_t>(m.rows), 0u);
  const size_t row_bytes = m.data.size() / static_cast<size_t>(m.rows);
  Piece piece;
  piece.data = m.data.subspan(static_cast<size_t>(row) * row_bytes, static_cast<size_t>(rows) * row_bytes);
  if (m.scales.empty()) return piece;
  const int64_t scale_rows = (m.rows + m.block_rows - 1) / m.block_rows;
  const size_t scale_bytes = m.scales.size() / static_cast<size_t>(scale_rows);
  const int64_t first = row / m.block_rows;
  const int64_t last = (row + rows + m.block_rows - 1) / m.block_rows;
  piece.scales = m.scales.subspan(static_cast<size_t>(first) * scale_bytes,
                                  static_cast<size_t>(last - first) * scale_bytes);
  return piece;
}

// Returns the number of rows of pieces of about `bytes`: whole panels, and either whole blocks of scales or
// parts of one block.
int64_t PieceRows(const MatrixView& m, size_t bytes) {
  NUMOE_DCHECK(m.rows > 0 && m.block_rows > 0);
  const auto wanted =
      static_cast<int64_t>(bytes / std::max<size_t>(m.data.size() / static_cast<size_t>(m.rows), 1));
  const int64_t unit = std::lcm<int64_t>(kPanelRows, m.block_rows);
  if (wanted >= unit || m.block_rows % kPanelRows != 0) return std::max(wanted / unit, int64_t{1}) * unit;
  int64_t rows = kPanelRows;
  while (rows * 2 <= wanted && m.block_rows % (rows * 2) == 0) rows *= 2;
  return rows;
}

struct Chunk {
  int matrix = 0;
  int64_t row = 0;  // in the stored matrix
  int rows = 0;
};

// Cuts rows [begin, end) of matrix number `matrix` into pieces of about `bytes`. The cuts are at the same
// rows of the matrix wherever the range begins. If the range begins within a block of scales, there is also a
// cut at the end of that block, because the first row of a piece counts as the first row of a block.
std::vector<Chunk> CutIntoChunks(const MatrixView& m, int matrix, int64_t begin, int64_t end, size_t bytes) {
  const int64_t step = PieceRows(m, bytes);
  NUMOE_CHECK_EQ(step % kPanelRows, 0);
  std::vector<Chunk> chunks;
  for (int64_t row = begin; row < end;) {
    const int64_t cut = row % m.block_rows == 0 ? step : std::min<int64_t>(step, m.block_rows);
    const int64_t next = std::min(end, row / cut * cut + cut);
    NUMOE_CHECK(row < next && next <= end) << "a chunk must have rows";
    chunks.push_back({.matrix = matrix, .row = row, .rows = static_cast<int>(next - row)});
    row = next;
  }
  return chunks;
}

// A file that chunks read. It is open from the first of these chunks to the last.
class SharedFile {
 public:
  SharedFile(const MappedFile& mapped, bool direct) : mapped_(mapped), direct_(direct) {}
  void AddUse() {
    const MutexLock lock(mutex_);
    ++uses_;
  }

  absl::StatusOr<InputFile*> Acquire() {
    const MutexLock lock(mutex_);
    if (file_ == nullptr) {
      ASSIGN_OR_RETURN(file_, InputFile::Open(mapped_, direct_));
    }
    return file_.get();
  }
  // Called after each use. After the last one, checks that the file has not changed, and closes it.
  absl::Status Release() {
    const MutexLock lock(mutex_);
    if (--uses_ > 0) return absl::OkStatus();
    NUMOE_CHECK(uses_ == 0 && file_ != nullptr) << "Release without Acquire";
    const absl::Status status = file_->CheckUnchanged();
    file_.reset();
    return status;
  }
  uint64_t OffsetOf(absl::Span<const std::byte> part) const {
    return static_cast<uint64_t>(part.data() - mapped_.bytes().data());
  }

 private:
  const MappedFile& mapped_;
  const bool direct_;
  Mutex mutex_;
  int64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<InputFile> file_ ABSL_GUARDED_BY(mutex_);
};

// What all threads share: the chunks in the order of reading, the files, and the first error.
class LoadPlan {
 public:
  LoadPlan(const Checkpoint& checkpoint, const std::vector<MatrixLoad>& matrices, const LoadOptions& options)
      : checkpoint_(checkpoint), matrices_(matrices), options_(options) {}

  void Cut(int threads) {
    size_t packed = 0;
    for (const MatrixLoad& matrix : matrices_) packed += matrix.out.size();
    const size_t budget = std::min(limits::kLoadStagingBytesMax, packed / 32);
    const size_t target = std::clamp(budget / static_cast<size_t>(2 * threads), limits::kLoadChunkBytesMin,
                                     limits::kLoadChunkBytes);
    for (size_t i = 0; i < matrices_.size(); ++i) {
      const MatrixLoad& m = matrices_[i];
      NUMOE_CHECK(m.rows > 0 && m.row_begin + m.rows <= m.stored.rows &&
                  m.col_begin + m.cols <= m.stored.cols);
      NUMOE_CHECK_EQ(m.out.size(), PackedBytes(m.format, m.rows, m.cols));
      NUMOE_CHECK_EQ(m.row_begin % kPanelRows, 0);
      for (const Chunk& chunk :
           CutIntoChunks(m.stored, static_cast<int>(i), m.row_begin, m.row_begin + m.rows, target))
        AddChunk(chunk);
    }
    // The order of addresses is the order of offsets within a file, and of the mappings of files.
    std::sort(chunks_.begin(), chunks_.end(), [&](const Chunk& a, const Chunk& b) {
      return PieceOfChunk(a).data.data() < PieceOfChunk(b).data.data();
    });
    const size_t stage = data_bytes_ + scale_bytes_;
    depth_ = static_cast<int>(
        std::clamp<size_t>(budget / (stage * static_cast<size_t>(threads) + 1), 2, limits::kLoadReadsMax));
  }

  const MatrixLoad& MatrixOf(const Chunk& chunk) const {
    return matrices_[static_cast<size_t>(chunk.matrix)];
  }
  Piece PieceOfChunk(const Chunk& chunk) const {
    return PieceOf(MatrixOf(chunk).stored, chunk.row, chunk.rows);
  }
  bool InMemory(absl::Span<const std::byte> part) const { return checkpoint_.FileOf(part) == nullptr; }
  SharedFile& FileOf(absl::Span<const std::byte> part) const { return *files_.at(checkpoint_.FileOf(part)); }
  absl::StatusOr<InputFile*> OpenFileOf(absl::Span<const std::byte> part) const {
    absl::StatusOr<InputFile*> file = FileOf(part).Acquire();
    if (!file.ok()) return InTensor(file.status(), part);
    return file;
  }

  const Chunk* Claim() {
    if (failed_.load(std::memory_order_relaxed)) return nullptr;
    const size_t next = next_.fetch_add(1, std::memory_order_relaxed);
    return next < chunks_.size() ? &chunks_[next] : nullptr;
  }

  // Checks and packs rows whose bytes are in memory.
  absl::Status Pack(const Chunk& chunk, const Piece& bytes) const {
    const MatrixLoad& m = MatrixOf(chunk);
    NUMOE_DCHECK(m.row_begin <= chunk.row && chunk.row + chunk.rows <= m.row_begin + m.rows);
    NUMOE_DCHECK_EQ((chunk.row - m.row_begin) % kPanelRows, 0);
    MatrixView view = m.stored;
    view.rows = chunk.rows;
    view.data = bytes.data;
    view.scales = bytes.scales;
    const Piece stored = PieceOfChunk(chunk);
    RETURN_IF_ERROR(InTensor(CheckScales(view, chunk.row), stored.scales));
    RETURN_IF_ERROR(InTensor(CheckCodes(view, chunk.row), stored.data));
    const size_t begin = PackedBytes(m.format, static_cast<int>(chunk.row - m.row_begin), m.cols);
    return InTensor(PackMatrix(m.format, view, 0, chunk.rows, m.col_begin, m.cols,
                               m.out.subspan(begin, PackedBytes(m.format, chunk.rows, m.cols))),
                    stored.data, chunk.row);
  }

  absl::Status InTensor(const absl::Status& status, absl::Span<const std::byte> part, int64_t row = 0) const {
    if (status.ok()) return status;
    const std::string tensor = checkpoint_.DescribeBytes(part);
    return Annotate(status, row == 0 ? tensor : fmt::format("{}: counting rows from {}", tensor, row));
  }

  // Returns true once: that caller logs how files are read.
  bool FirstReader() { return !reading_.exchange(true); }
  void Fail(const absl::Status& status) {
    if (status.ok()) return;
    first_error_.Note(status);
    failed_.store(true);
  }
  absl::Status first_error() const {
    return first_error_.status();
  }  // call it when all threads have finished

  uint64_t bytes() const { return bytes_; }
  size_t data_bytes() const { return data_bytes_; }
  size_t scale_bytes() const { return scale_bytes_; }
  int depth() const { return depth_; }
  const LoadOptions& options() const { return options_; }

 private:
  void AddChunk(const Chunk& chunk) {
    chunks_.push_back(chunk);
    const Piece piece = PieceOfChunk(chunk);
    bytes_ += piece.data.size() + piece.scales.size();
    for (const auto& [part, largest] : {std::pair{piece.data, &data_bytes_}, {piece.scales, &scale_bytes_}}) {
      const MappedFile* mapped = part.empty() ? nullptr : checkpoint_.FileOf(part);
      if (mapped == nullptr) continue;
      auto& file = files_[mapped];
      if (file == nullptr) file = std::make_unique<SharedFile>(*mapped, options_.direct);
      file->AddUse();
      *largest = std::max(*largest, AlignRead(file->OffsetOf(part), part.size()).size);
    }
  }

  const Checkpoint& checkpoint_;
  const std::vector<MatrixLoad>& matrices_;
  const LoadOptions& options_;
  std::vector<Chunk> chunks_;
  std::map<const MappedFile*, std::unique_ptr<SharedFile>> files_;
  uint64_t bytes_ = 0;
  size_t data_bytes_ = 0;   // of the largest aligned read
  size_t scale_bytes_ = 0;  // the same for scales
  int depth_ = 1;

  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> reading_{false};
  FirstError first_error_;
};

// One thread's work: its buffers, its reads in flight, and the packing of what has arrived.
class LoadThread {
 public:
  LoadThread(LoadPlan& plan, LoadProgress& progress)
      : plan_(plan), progress_(progress), stages_(static_cast<size_t>(plan.depth())) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(memory_,
                     NodeMemory::Allocate(stages_.size() * (plan_.data_bytes() + plan_.scale_bytes())));
    std::byte* at = memory_.data();
    for (Stage& stage : stages_) {
      stage.data = {at, plan_.data_bytes()};
      stage.scales = {at + plan_.data_bytes(), plan_.scale_bytes()};
      at += plan_.data_bytes() + plan_.scale_bytes();
      idle_.push_back(&stage);
    }
    absl::Status status = Fill();
    while (in_flight_ > 0) {
      const absl::Status completed =
          Complete();  // even after an error, because the kernel writes into these buffers
      if (status.ok()) status = completed;
      plan_.Fail(status);
      if (status.ok()) status = Fill();
    }
    return status;
  }

 private:
  enum Part { kData, kScales, kParts };  // which part of a chunk a read returns
  struct Stage {
    const Chunk* chunk = nullptr;
    absl::Span<std::byte> data;  // buffers
    absl::Span<std::byte> scales;
    Piece arrived;  // where the bytes are in the buffers after the reads
    int reads = 0;  // in flight
    bool direct = false;
    absl::Status status;
  };

  // Claims chunks until all buffers have reads in flight.
  absl::Status Fill() {
    while (!idle_.empty()) {
      const Chunk* chunk = plan_.Claim();
      if (chunk == nullptr) return absl::OkStatus();
      RETURN_IF_ERROR(Begin(*chunk));
    }
    return absl::OkStatus();
  }

  absl::Status Begin(const Chunk& chunk) {
    const Piece piece = plan_.PieceOfChunk(chunk);
    if (plan_.InMemory(piece.data)) {  // the checkpoint is in memory
      RETURN_IF_ERROR(plan_.Pack(chunk, piece));
      progress_.Add(piece.data.size() + piece.scales.size(), false);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const bool cached, PackCached(chunk));
    if (cached) {
      progress_.Add(piece.data.size() + piece.scales.size(), false);
      return Release(piece);
    }
    NUMOE_CHECK(!idle_.empty() && idle_.back()->reads == 0);
    Stage& stage = *idle_.back();
    idle_.pop_back();
    stage.chunk = &chunk;
    stage.status = BeginRead(stage, kData, piece.data);
    if (stage.status.ok()) stage.status = BeginRead(stage, kScales, piece.scales);
    if (stage.reads == 0) idle_.push_back(&stage);
    return stage.status;
  }

  absl::Status BeginRead(Stage& stage, Part which, absl::Span<const std::byte> part) {
    absl::Span<const std::byte>& arrived = which == kData ? stage.arrived.data : stage.arrived.scales;
    const absl::Span<std::byte> buffer = which == kData ? stage.data : stage.scales;
    arrived = {};
    if (part.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(InputFile * file, plan_.OpenFileOf(part));
    if (reader_ == nullptr) {
      reader_ = std::make_unique<RangeReader>(RangeReaderOptions{
          .depth = kParts * static_cast<int>(stages_.size()), .io_uring = plan_.options().io_uring});
      if (plan_.FirstReader()) {
        LogInfo("reading weights by {}{}, {} pieces of up to {:.1f} MiB in flight for each thread",
                reader_->method(), file->direct() ? " without the page cache" : "", stages_.size(),
                static_cast<double>(plan_.data_bytes()) / (1 << 20));
      }
    }
    const AlignedRead range = AlignRead(plan_.FileOf(part).OffsetOf(part), part.size());
    NUMOE_CHECK_LE(range.size, buffer.size());
    arrived = absl::MakeConstSpan(buffer).subspan(range.skip, part.size());
    reader_->Begin(*file, range.offset, buffer.first(range.size), range.skip + part.size(),
                   static_cast<uint64_t>(&stage - stages_.data()) * kParts + which);
    stage.direct = file->direct();
    ++stage.reads;
    ++in_flight_;
    return absl::OkStatus();
  }

  // Waits for one read. After the last read of a chunk, the chunk is packed.
  absl::Status Complete() {
    const RangeReader::Done done = reader_->Await();
    --in_flight_;
    NUMOE_CHECK(in_flight_ >= 0 && done.tag / kParts < stages_.size());
    Stage& stage = stages_[done.tag / kParts];
    const Piece piece = plan_.PieceOfChunk(*stage.chunk);
    if (!done.status.ok() && stage.status.ok())
      stage.status = plan_.InTensor(done.status, done.tag % kParts == kData ? piece.data : piece.scales);
    if (--stage.reads > 0) return absl::OkStatus();
    idle_.push_back(&stage);
    RETURN_IF_ERROR(stage.status);
    RETURN_IF_ERROR(plan_.Pack(*stage.chunk, stage.arrived));
    progress_.Add(piece.data.size() + piece.scales.size(), stage.direct);
    return Release(piece);
  }

  absl::Status Release(const Piece& piece) {
    RETURN_IF_ERROR(plan_.InTensor(plan_.FileOf(piece.data).Release(), piece.data));
    if (piece.scales.empty()) return absl::OkStatus();
    return plan_.InTensor(plan_.FileOf(piece.scales).Release(), piece.scales);
  }

  // Returns false if the page cache does not hold all of the chunk.
  absl::StatusOr<bool> PackCached(const Chunk& chunk) {
    const Stage& stage = *idle_.back();
    const MatrixView& matrix = plan_.MatrixOf(chunk).stored;
    for (const Chunk& part : CutIntoChunks(matrix, chunk.matrix, chunk.row, chunk.row + chunk.rows,
                                           limits::kLoadCachedChunkBytes)) {
      const Piece stored = plan_.PieceOfChunk(part);
      ASSIGN_OR_RETURN(const bool data, ReadCached(stored.data, stage.data));
      if (!data) return false;
      ASSIGN_OR_RETURN(const bool scales, ReadCached(stored.scales, stage.scales));
      if (!scales) return false;
      RETURN_IF_ERROR(plan_.Pack(part, {.data = stage.data.first(stored.data.size()),
                                        .scales = stage.scales.first(stored.scales.size())}));
    }
    return true;
  }

  absl::StatusOr<bool> ReadCached(absl::Span<const std::byte> part, absl::Span<std::byte> buffer) {
    if (part.empty()) return true;
    ASSIGN_OR_RETURN(InputFile * file, plan_.OpenFileOf(part));
    return file->ReadCached(plan_.FileOf(part).OffsetOf(part), part, buffer.first(part.size()));
  }

  LoadPlan& plan_;
  LoadProgress& progress_;
  NodeMemory memory_;
  std::vector<Stage> stages_;
  std::vector<Stage*> idle_;
  std::unique_ptr<RangeReader> reader_;  // created when something must be read
  int in_flight_ = 0;
};

}  // namespace

absl::Status LoadMatrices(const Checkpoint& checkpoint, const std::vector<MatrixLoad>& matrices,
                          ThreadPool& pool, const LoadOptions& options, LoadProgress& progress) {
  LoadPlan plan(checkpoint, matrices, options);
  plan.Cut(pool.threads());
  progress.Begin(plan.bytes());
  pool.Run(pool.threads(), [&](int, int) { plan.Fail(LoadThread(plan, progress).Run()); });
  return plan.first_error();
}

}  // namespace numoe::worker
