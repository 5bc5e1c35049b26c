#include "common/weights/mapped_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fstream>

#include "common/weights/input_file.h"
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

TEST_F(MappedFileTest, AFolderIsRefused) {
  const absl::Status status = MappedFile::Open(folder_.path()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), StartsWith(folder_.path().string() + ": "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is a directory, expected a regular file"));
}

// If an error is permanent, a supervisor ends all its workers; if it may be temporary, it tries again.
TEST_F(MappedFileTest, TemporaryErrorsAreUnavailable) {
  const std::filesystem::path path = Write("good", "text");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = MappedFile::Open(path).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(MappedFile::Open(path).ok());
}

// Opening a FIFO without a writer would wait forever.
TEST_F(MappedFileTest, OtherKindsOfFilesAreRefusedAtOnce) {
  const std::filesystem::path fifo = folder_.path() / "fifo", link = folder_.path() / "link";
  const std::filesystem::path sock = folder_.path() / "sock";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_symlink(fifo, link);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(sock.string().size(), sizeof address.sun_path);
  sock.string().copy(address.sun_path, sizeof address.sun_path - 1);
  const FileDescriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::pair<std::filesystem::path, std::string> cases[] = {{fifo, "is a FIFO (named pipe)"},
                                                                 {link, "is a FIFO (named pipe)"},
                                                                 {sock, "is a socket"},
                                                                 {"/dev/null", "is a device"}};
  for (const auto& [path, kind] : cases) {
    for (const absl::Status& status : {MappedFile::Open(path).status(), ReadTextFile(path, 100).status()}) {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()), StartsWith(path.string() + ": " + kind));
    }
  }
}

TEST_F(MappedFileTest, ARegularFileIsWaitedFor) {
  const auto fd = OpenRegularFile(Write("text", "12345"));
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(fcntl(fd->get(), F_GETFL) & O_NONBLOCK, 0) << "io_uring would not wait for its blocks";
}

TEST_F(MappedFileTest, ReadsTextUpToTheLimit) {
  const std::filesystem::path path = Write("text", "12345");
  EXPECT_EQ(*ReadTextFile(path, 5), "12345");
  EXPECT_EQ(ReadTextFile(path, 4).status().message(), path.string() + ": 5 bytes, expected at most 4");
}

}  // namespace
}  // namespace numoe
