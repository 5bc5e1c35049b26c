#include "common/weights/mapped_file.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class MappedFileTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
    return folder_.path() / name;
  }

  TemporaryFolder folder_;
};

TEST_F(MappedFileTest, MapsTheWholeFileAndMoves) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(Write("a", "hello"));
  ASSERT_TRUE(file.ok()) << file.status();
  MappedFile moved = *std::move(file);
  MappedFile assigned;
  assigned = std::move(moved);
  ASSERT_EQ(assigned.bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(assigned.bytes()[4]), 'o');
  EXPECT_TRUE(moved.bytes().empty());
}

TEST_F(MappedFileTest, EmptyFileIsAnEmptySpan) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(Write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(MappedFileTest, AbsentFileIsNotFound) {
  const absl::Status status = MappedFile::Open(folder_.path() / "absent").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(),
            (folder_.path() / "absent").string() + ": cannot open: No such file or directory");
}

TEST_F(MappedFileTest, FolderIsNoFile) {
  const absl::Status status = MappedFile::Open(folder_.path()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), StartsWith(folder_.path().string() + ": "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a regular file"));
}

TEST_F(MappedFileTest, ReadsTextUpToTheLimit) {
  const std::filesystem::path path = Write("text", "12345");
  EXPECT_EQ(*ReadTextFile(path, 5), "12345");
  EXPECT_EQ(ReadTextFile(path, 4).status().message(), path.string() + ": 5 bytes, expected at most 4");
}

}  // namespace
}  // namespace numoe
