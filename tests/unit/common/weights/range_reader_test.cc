// Both methods of reading, with and without direct reads, give the same bytes and the same errors.
#include "common/weights/range_reader.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/forbidden_calls.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSize = 3'000'001;
constexpr size_t kReadBytesMax = 40 * kReadAlignment;

struct Way {
  bool io_uring;
  bool direct;
};

class RangeReaderTest : public ::testing::TestWithParam<Way> {
 protected:
  RangeReaderTest() : path_(folder_.path() / "weights"), content_(kSize, '\0') {
    std::mt19937_64 random(5);
    for (char& c : content_) c = static_cast<char>(random());
    std::ofstream(path_, std::ios::binary) << content_;
    const FileDescriptor fd(open(path_.c_str(), O_RDONLY));
    fsync(fd.get());
    mapped_ = *MappedFile::Open(path_);
    file_ = *InputFile::Open(mapped_, GetParam().direct);
    for (auto& buffer : buffers_) buffer = static_cast<std::byte*>(std::aligned_alloc(4096, kReadBytesMax));
  }
  ~RangeReaderTest() override {
    for (std::byte* buffer : buffers_) std::free(buffer);
  }
  RangeReader MakeReader() { return RangeReader({.depth = kDepth, .io_uring = GetParam().io_uring}); }

  static constexpr int kDepth = 6;
  TemporaryFolder folder_;
  const std::filesystem::path path_;
  std::string content_;
  MappedFile mapped_;
  std::unique_ptr<InputFile> file_;
  std::byte* buffers_[kDepth];
};

TEST_P(RangeReaderTest, ReadsTheFilesBytes) {
  RangeReader reader = MakeReader();
  std::mt19937 random(6);
  std::map<uint64_t, std::pair<uint64_t, size_t>> expected;  // buffer: offset and size
  std::vector<uint64_t> idle = {0, 1, 2, 3, 4, 5};
  for (int begun = 0, ended = 0; ended < 300; ++ended) {
    for (; begun < 300 && !idle.empty(); ++begun) {
      const uint64_t offset = begun == 0 ? kSize - 1 : random() % kSize;
      const size_t size =
          1 + random() % std::min<uint64_t>(kSize - offset, kReadBytesMax - 2 * kReadAlignment);
      const AlignedRead range = AlignRead(offset, size);
      reader.Begin(*file_, range.offset, absl::MakeSpan(buffers_[idle.back()], range.size), range.skip + size,
                   idle.back());
      expected[idle.back()] = {offset, size};
      idle.pop_back();
    }
    EXPECT_EQ(reader.in_flight(), kDepth - static_cast<int>(idle.size()));
    const RangeReader::Done done = reader.Await();
    ASSERT_TRUE(done.status.ok()) << done.status;
    const auto [offset, size] = expected[done.tag];
    const AlignedRead range = AlignRead(offset, size);
    ASSERT_EQ(content_.compare(offset, size, reinterpret_cast<char*>(buffers_[done.tag]) + range.skip, size),
              0);
    idle.push_back(done.tag);
  }
  EXPECT_EQ(reader.in_flight(), 0);
}

TEST_P(RangeReaderTest, LeavesNoPageCacheBehind) {
  file_->DropCache(0, kSize);
  if (InPageCache(mapped_.bytes().first(1))) GTEST_SKIP() << "this file system keeps what it should forget";
  RangeReader reader = MakeReader();
  reader.Begin(*file_, 10 * kReadAlignment, absl::MakeSpan(buffers_[0], kReadBytesMax), kReadBytesMax, 0);
  ASSERT_TRUE(reader.Await().status.ok());
  for (size_t at = 0; at < kReadBytesMax; at += kReadAlignment)
    EXPECT_FALSE(InPageCache(mapped_.bytes().subspan(10 * kReadAlignment + at, 1))) << at;
}

TEST_P(RangeReaderTest, AFileThatShrinksIsAnError) {
  RangeReader reader = MakeReader();
  for (const off_t size : {off_t{50 * 4096 + 10}, off_t{20 * 4096}}) {  // within a block, and between two
    ASSERT_EQ(truncate(path_.c_str(), size), 0);
    reader.Begin(*file_, 30 * kReadAlignment, absl::MakeSpan(buffers_[0], kReadBytesMax), kReadBytesMax, 7);
    const RangeReader::Done done = reader.Await();
    EXPECT_EQ(done.tag, 7u);
    EXPECT_TRUE(absl::IsDataLoss(done.status)) << done.status;
    EXPECT_THAT(std::string(done.status.message()), HasSubstr(path_.string() + ": "));
    EXPECT_THAT(std::string(done.status.message()),
                HasSubstr("bytes at offset 122880, expected 163840: the file is shorter"));
  }
}

TEST_P(RangeReaderTest, RefusedDirectReadsAreDoneThroughTheCache) {
  RangeReader reader = MakeReader();
  reader.Begin(*file_, 5, absl::MakeSpan(buffers_[0] + 1, 1000), 1000, 0);  // aligned to nothing
  const RangeReader::Done done = reader.Await();
  ASSERT_TRUE(done.status.ok()) << done.status;
  EXPECT_EQ(content_.compare(5, 1000, reinterpret_cast<char*>(buffers_[0]) + 1, 1000), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, RangeReaderTest,
                         ::testing::Values(Way{true, true}, Way{true, false}, Way{false, true},
                                           Way{false, false}),
                         [](const auto& way) {
                           return std::string(way.param.io_uring ? "Uring" : "Threads") +
                                  (way.param.direct ? "Direct" : "Buffered");
                         });

}  // namespace
}  // namespace numoe
