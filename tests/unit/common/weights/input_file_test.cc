// Files that end early, shrink, or are replaced are errors. The page cache is used where it helps, and left
// unchanged elsewhere.
#include "common/weights/input_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

class InputFileTest : public ::testing::Test {
 protected:
  static constexpr size_t kSize = 5 * kReadAlignment + 100;

  InputFileTest() : path_(folder_.path() / "weights") {
    for (size_t i = 0; i < kSize; ++i) content_.push_back(static_cast<std::byte>(i * 7 % 251));
    std::ofstream(path_, std::ios::binary).write(reinterpret_cast<const char*>(content_.data()), kSize);
    const FileDescriptor fd(open(path_.c_str(), O_RDONLY));
    fsync(fd.get());  // only clean pages can be dropped
    mapped_ = *MappedFile::Open(path_);
  }
  std::unique_ptr<InputFile> Open(bool direct = true) {
    absl::StatusOr<std::unique_ptr<InputFile>> file = InputFile::Open(mapped_, direct);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  // Returns false if this file system keeps what it should drop (tmpfs).
  bool MakeCold() {
    Open()->DropCache(0, kSize);
    return !InPageCache(mapped_.bytes());
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_;
  std::vector<std::byte> content_;
  MappedFile mapped_;
};

TEST_F(InputFileTest, AlignsOutwards) {
  const AlignedRead inside = AlignRead(5000, 100);
  EXPECT_EQ(inside.offset, 4096u);
  EXPECT_EQ(inside.size, 4096u);
  EXPECT_EQ(inside.skip, 904u);
  const AlignedRead across = AlignRead(8191, 2);
  EXPECT_EQ(across.offset, 4096u);
  EXPECT_EQ(across.size, 8192u);
  EXPECT_EQ(across.skip, 4095u);
  EXPECT_EQ(AlignRead(8192, 4096).size, 4096u);
}

TEST_F(InputFileTest, ReadsWhatIsCachedAndNothingElse) {
  const std::unique_ptr<InputFile> file = Open();
  std::vector<std::byte> out(1000);
  if (MakeCold()) {
    EXPECT_FALSE(file->ReadCached(4000, mapped_.bytes().subspan(4000, 1000), absl::MakeSpan(out)));
    EXPECT_FALSE(InPageCache(mapped_.bytes())) << "asking must not read ahead";
  }
  std::vector<std::byte> all(kSize);
  ASSERT_TRUE(ReadFully(Open(false)->fd(), path_, 0, absl::MakeSpan(all)).ok());
  EXPECT_EQ(all, content_);
  ASSERT_TRUE(InPageCache(mapped_.bytes()));
  if (!file->ReadCached(4000, mapped_.bytes().subspan(4000, 1000), absl::MakeSpan(out)))
    GTEST_SKIP() << "this file system cannot read without waiting";
  EXPECT_TRUE(std::equal(out.begin(), out.end(), content_.begin() + 4000));
}

TEST_F(InputFileTest, CopiesBytesAndLeavesTheCacheAsItWas) {
  std::byte out[16];
  for (const bool cold : {true, false}) {
    if (cold && !MakeCold()) continue;
    if (!cold) {
      std::vector<std::byte> all(kSize);
      ASSERT_TRUE(ReadFully(Open(false)->fd(), path_, 0, absl::MakeSpan(all)).ok());
    }
    for (const size_t at :
         {size_t{0}, 2 * kReadAlignment - 8, kSize - 16}) {  // the second crosses two blocks
      const absl::Status status = CopyBytes(mapped_, mapped_.bytes().subspan(at, 16), out);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(std::equal(out, out + 16, content_.begin() + static_cast<int64_t>(at)));
    }
    EXPECT_EQ(InPageCache(mapped_.bytes().first(kReadAlignment)), !cold);
  }
}

TEST_F(InputFileTest, AFileThatEndsEarlyIsAnErrorWithItsOffset) {
  const std::unique_ptr<InputFile> file = Open(false);
  std::vector<std::byte> out(300);
  const absl::Status status = ReadFully(file->fd(), path_, kSize - 200, absl::MakeSpan(out));
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path_.string() + ": 200 bytes at offset 20380, expected 300: the file is shorter"));
}

TEST_F(InputFileTest, AFileThatShrankIsAnErrorAndNotASignal) {
  const std::unique_ptr<InputFile> file = Open();
  ASSERT_EQ(truncate(path_.c_str(), 100), 0);
  EXPECT_THAT(std::string(file->CheckUnchanged().message()),
              HasSubstr("has changed since it was opened (20580 bytes, now 100)"));
  std::byte out[16];
  EXPECT_TRUE(absl::IsUnavailable(CopyBytes(mapped_, mapped_.bytes().subspan(8192, 16), out)));
}

TEST_F(InputFileTest, AFileThatWasReplacedIsAnError) {
  std::filesystem::rename(path_, path_.string() + ".old");
  std::filesystem::copy_file(path_.string() + ".old", path_);
  EXPECT_TRUE(absl::IsUnavailable(InputFile::Open(mapped_, true).status()));
  std::filesystem::remove(path_);
  EXPECT_TRUE(absl::IsNotFound(InputFile::Open(mapped_, true).status()));
}

}  // namespace
}  // namespace numoe
