// Reads in pieces, from the disk or the page cache, with io_uring or threads. The packed bytes are the same
// as when each matrix is packed at once, and for a bad file the error names its tensor.
#include "expert_worker/experts/matrix_loader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <thread>

#include "common/base/check.h"
#include "common/topology/node_memory.h"
#include "common/weights/input_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/forbidden_calls.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;

constexpr int kRows = 1024;
constexpr int kCols = 512;
constexpr char kSharedMemory[] = "/dev/shm";

// Two matrices of many pieces in a file on disk (so that it can be dropped from the page cache).
class Stored {
 public:
  explicit Stored(MatrixFormat format,
                  const std::filesystem::path& parent = std::filesystem::temp_directory_path())
      : folder_(parent) {
    SafetensorsWriter writer;
    writer.AddLinear("a", format, kRows, kCols, 0.1f);
    writer.AddLinear("b", format, kRows, kCols, 0.1f);
    Write(writer);
  }
  explicit Stored(const SafetensorsWriter& writer) { Write(writer); }

  std::filesystem::path path() const { return folder_.path() / "model.safetensors"; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  MappedFile Mapped() const { return *MappedFile::Open(path()); }

  // Returns false if the file system keeps what it should drop.
  bool MakeCold() const {
    const MappedFile mapped = Mapped();
    (*InputFile::Open(mapped, false))->DropCache(0, mapped.bytes().size());
    return !InPageCache(mapped.bytes().last(4096));
  }
  void MakeHot() const {
    std::ifstream(path(), std::ios::binary).ignore(std::numeric_limits<int64_t>::max());
  }

  MatrixView Locate(const char* module) const { return views_.at(module); }

 private:
  void Write(const SafetensorsWriter& writer) {
    writer.Write(folder_.path());
    const FileDescriptor fd(open(path().c_str(), O_RDONLY));
    fsync(fd.get());
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(folder_.path());
    NUMOE_CHECK(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
    for (const char* module : {"a", "b"}) {
      absl::StatusOr<MatrixView> view = checkpoint_->LocateMatrix(module, kRows, kCols, ModelConfig{});
      NUMOE_CHECK(view.ok()) << view.status();
      views_[module] = *view;
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::map<std::string, MatrixView> views_;
};

// A rectangle of both matrices, as slices have them.
struct Rectangle {
  int64_t row_begin = 0;
  int rows = kRows;
  int64_t col_begin = 0;
  int cols = kCols;
};

struct Loaded {
  absl::Status status;
  NodeMemory memory;
  size_t matrix_bytes = 0;
};

Loaded LoadMatrices(const Stored& stored, WeightFormat format, const Rectangle& r = {},
                    const LoadOptions& options = {}, LoadProgress* progress = nullptr) {
  Loaded loaded;
  loaded.matrix_bytes = PackedBytes(format, r.rows, r.cols);
  loaded.memory = *NodeMemory::Allocate(2 * loaded.matrix_bytes);
  std::vector<MatrixLoad> loads;
  for (const char* module : {"a", "b"}) {
    std::byte* out = loaded.memory.data() + loads.size() * loaded.matrix_bytes;
    loads.push_back({.stored = stored.Locate(module),
                     .format = format,
                     .row_begin = r.row_begin,
                     .rows = r.rows,
                     .col_begin = r.col_begin,
                     .cols = r.cols,
                     .out = absl::MakeSpan(out, loaded.matrix_bytes)});
  }
  ThreadPool pool({.cpus = {0, 0, 0}});
  LoadProgress mine;
  loaded.status = LoadMatrices(stored.checkpoint(), loads, pool, options, progress ? *progress : mine);
  return loaded;
}

void ExpectPackedAtOnce(const Loaded& loaded, const Stored& stored, WeightFormat format, const Rectangle& r) {
  ASSERT_TRUE(loaded.status.ok()) << loaded.status;
  const NodeMemory expected = *NodeMemory::Allocate(loaded.matrix_bytes);
  for (const size_t i : {0, 1}) {
    const absl::Status packed =
        PackMatrix(format, stored.Locate(i == 0 ? "a" : "b"), r.row_begin, r.rows, r.col_begin, r.cols,
                   absl::MakeSpan(expected.data(), loaded.matrix_bytes));
    ASSERT_TRUE(packed.ok()) << packed;
    EXPECT_EQ(
        std::memcmp(loaded.memory.data() + i * loaded.matrix_bytes, expected.data(), loaded.matrix_bytes), 0)
        << "matrix " << i;
  }
}

struct Formats {
  MatrixFormat stored;
  WeightFormat held;
};
class MatrixLoaderTest : public ::testing::TestWithParam<Formats> {};

TEST_P(MatrixLoaderTest, PiecesArePackedLikeTheWhole) {
  const auto [format, held] = GetParam();
  const Stored stored(format);
  const Rectangle rectangles[] = {{},
                                  {.row_begin = 512, .rows = 512},
                                  {.row_begin = 64, .rows = 192},  // begins and ends within blocks of 128
                                  {.row_begin = 960, .rows = 64},
                                  {.col_begin = 256, .cols = 256},
                                  {.col_begin = 64, .cols = 128}};
  for (const Rectangle& r : rectangles) {
    SCOPED_TRACE(r.row_begin * 1000 + r.col_begin);
    for (const bool io_uring : {true, false}) {
      for (const bool direct : {true, false}) {
        stored.MakeCold();
        ExpectPackedAtOnce(LoadMatrices(stored, held, r, {.io_uring = io_uring, .direct = direct}), stored,
                           held, r);
      }
    }
    stored.MakeHot();
    ExpectPackedAtOnce(LoadMatrices(stored, held, r), stored, held, r);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, MatrixLoaderTest,
                         ::testing::Values(Formats{MatrixFormat::kInt4Group, WeightFormat::kRawInt4},
                                           Formats{MatrixFormat::kInt4Group, WeightFormat::kInt8},
                                           Formats{MatrixFormat::kFp8Block, WeightFormat::kFp8},
                                           Formats{MatrixFormat::kFp8Block, WeightFormat::kInt8},
                                           Formats{MatrixFormat::kBF16, WeightFormat::kBf16},
                                           Formats{MatrixFormat::kBF16, WeightFormat::kInt4}),
                         [](const auto& formats) {
                           return fmt::format("stored{}_{}", static_cast<int>(formats.param.stored),
                                              WeightFormatName(formats.param.held));
                         });

TEST(MatrixLoaderFileTest, LoadsFromMemoryFileSystems) {
  if (!std::filesystem::is_directory(kSharedMemory)) GTEST_SKIP() << "no " << kSharedMemory;
  const Stored stored(MatrixFormat::kBF16, kSharedMemory);
  LoadProgress progress;
  ExpectPackedAtOnce(LoadMatrices(stored, WeightFormat::kBf16, {}, {}, &progress), stored,
                     WeightFormat::kBf16, {});
  EXPECT_EQ(progress.bytes_direct(), 0u);
}

TEST(MatrixLoaderFileTest, LoadsWhereIoUringIsForbidden) {
  const Stored stored(MatrixFormat::kInt4Group);
  stored.MakeCold();
  WithoutSystemCall(SYS_io_uring_setup, [&] {
    ExpectPackedAtOnce(LoadMatrices(stored, WeightFormat::kRawInt4), stored, WeightFormat::kRawInt4, {});
  });
}

TEST(MatrixLoaderFileTest, AColdFileStaysOutOfThePageCacheAndAHotOneInIt) {
  const Stored stored(MatrixFormat::kInt4Group);
  if (!stored.MakeCold()) GTEST_SKIP() << "this file system keeps what it should forget";
  const MappedFile mapped = stored.Mapped();
  LoadProgress cold;
  ASSERT_TRUE(LoadMatrices(stored, WeightFormat::kRawInt4, {}, {}, &cold).status.ok());
  EXPECT_EQ(cold.bytes_done(), cold.bytes_total());
  EXPECT_EQ(cold.bytes_direct(), cold.bytes_total());
  EXPECT_EQ(cold.bytes_total(), 2u * (kRows * kCols / 2 + kRows * kCols / 32 * 2));
  for (const char* module : {"a", "b"}) {
    const absl::Span<const std::byte> data = stored.Locate(module).data;
    for (size_t at = 0; at < data.size(); at += 4096)
      ASSERT_FALSE(InPageCache(data.subspan(at, 1))) << module << at;
  }
  stored.MakeHot();
  LoadProgress hot;
  ASSERT_TRUE(LoadMatrices(stored, WeightFormat::kRawInt4, {}, {}, &hot).status.ok());
  EXPECT_EQ(hot.bytes_direct(), 0u);
  EXPECT_TRUE(InPageCache(mapped.bytes()));
}

TEST(MatrixLoaderFileTest, ANanIsNamedWithItsPosition) {
  SafetensorsWriter writer;
  writer.AddLinear("a", MatrixFormat::kInt4Group, kRows, kCols, 0.1f);
  writer.AddLinear("b", MatrixFormat::kInt4Group, kRows, kCols, 0.1f);
  const uint16_t nan = 0x7fc0;
  std::memcpy(writer.Bytes("b.weight_scale").data() + (900 * (kCols / 32) + 3) * sizeof nan, &nan,
              sizeof nan);
  const Stored stored(writer);
  for (const bool hot : {false, true}) {
    hot ? stored.MakeHot() : static_cast<void>(stored.MakeCold());
    const absl::Status status = LoadMatrices(stored, WeightFormat::kRawInt4).status;
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_EQ(
        status.message(),
        stored.path().string() + ": tensor b.weight_scale: scale [900, 3] is nan, expected a finite number");
  }
}

TEST(MatrixLoaderFileTest, AWeightThatCannotBeQuantisedIsNamedWithItsPosition) {
  SafetensorsWriter writer;
  writer.AddLinear("a", MatrixFormat::kBF16, kRows, kCols, 0.1f);
  writer.AddLinear("b", MatrixFormat::kBF16, kRows, kCols, 0.1f);
  const uint16_t infinity = 0x7f80;
  std::memcpy(writer.Bytes("a.weight").data() + (1000 * kCols + 5) * sizeof infinity, &infinity,
              sizeof infinity);
  const Stored stored(writer);
  const std::string error(LoadMatrices(stored, WeightFormat::kInt8).status.message());
  EXPECT_THAT(error, HasSubstr(stored.path().string() + ": tensor a.weight: counting rows from "));
  EXPECT_THAT(error, HasSubstr(", 5] is inf, format int8 needs finite weights"));
}

TEST(MatrixLoaderFileTest, AFileThatWasCutShortIsAnError) {
  for (const bool hot : {false, true}) {
    for (const off_t left : {off_t{0}, off_t{5000}, off_t{600'000}}) {
      const Stored stored(MatrixFormat::kInt4Group);
      hot ? stored.MakeHot() : static_cast<void>(stored.MakeCold());
      ASSERT_EQ(truncate(stored.path().c_str(), left), 0);
      const absl::Status status = LoadMatrices(stored, WeightFormat::kRawInt4).status;
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(stored.path().string() + ": tensor "));
      EXPECT_THAT(std::string(status.message()), HasSubstr("has changed since it was opened"));
    }
  }
}

TEST(MatrixLoaderFileTest, AFileThatShrinksWhileItIsReadIsAnErrorAndNotASignal) {
  constexpr int kRounds = 1000;  // as many as it takes to hit the moment a few times
  int errors = 0;
  for (int round = 0; round < kRounds && errors < 8; ++round) {
    const Stored stored(MatrixFormat::kBF16);
    round % 2 == 0 ? stored.MakeHot() : static_cast<void>(stored.MakeCold());
    std::thread shrink([&, delay = round % 30 * 100] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
      ASSERT_EQ(truncate(stored.path().c_str(), 100'000), 0);
    });
    const absl::Status status =
        LoadMatrices(stored, WeightFormat::kBf16, {}, {.io_uring = round % 4 < 2, .direct = round % 3 != 0})
            .status;
    shrink.join();
    if (status.ok()) continue;  // the load was faster
    ++errors;
    EXPECT_THAT(std::string(status.message()), HasSubstr(stored.path().string() + ": tensor ")) << status;
  }
  EXPECT_GT(errors, 0);
}

}  // namespace
}  // namespace numoe::worker
