// Segments that a peer may pass: unsealed, of another kind, too large, or with a wrong header; and
// descriptors over sockets.
#include "common/transport/mailbox_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/transport/sockets.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

TEST(MailboxSegmentTest, BothSidesSeeTheSameBytes) {
  auto worker = MailboxSegment::Create(5000, 77);
  ASSERT_TRUE(worker.ok()) << worker.status();
  auto coordinator = MailboxSegment::Attach(FileDescriptor(dup(worker->fd())), 5000);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  EXPECT_EQ(coordinator->session(), 77u);
  EXPECT_EQ(coordinator->slot_bytes(), 8192u) << "whole pages";
  EXPECT_EQ(worker->bytes().size(), MailboxSegment::BytesFor(5000));
  for (const Side side : {Side::kCoordinator, Side::kWorker}) {
    worker->slot(side)[8191] = std::byte{42};
    EXPECT_EQ(coordinator->slot(side)[8191], std::byte{42});
  }
  EXPECT_NE(worker->slot(Side::kCoordinator), worker->slot(Side::kWorker));
}

TEST(MailboxSegmentTest, ItIsSealedAgainstBothSides) {
  auto segment = MailboxSegment::Create(4096);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_TRUE(HasSeals(segment->fd(), F_SEAL_SHRINK | F_SEAL_GROW));
  EXPECT_EQ(ftruncate(segment->fd(), 0), -1);
  EXPECT_EQ(ftruncate(segment->fd(), 1 << 20), -1);
  segment->SealMappings();
  segment->slot(Side::kWorker)[0] = std::byte{1};
  EXPECT_FALSE(HasSeals(STDERR_FILENO, F_SEAL_SHRINK)) << "other kinds of files have no seals";
}

TEST(MailboxSegmentTest, AMovedOneIsUnmappedOnce) {
  auto created = MailboxSegment::Create(4096);
  ASSERT_TRUE(created.ok()) << created.status();
  MailboxSegment first = *std::move(created);
  first.slot(Side::kWorker)[0] = std::byte{7};
  MailboxSegment second = std::move(first);
  EXPECT_EQ(second.slot(Side::kWorker)[0], std::byte{7});
  second = *MailboxSegment::Create(4096);
  EXPECT_EQ(second.slot(Side::kWorker)[0], std::byte{0});
}

TEST(MailboxSegmentTest, UnsealedOrWrongSegmentsAreRefused) {
  const int unsealed = memfd_create("x", 0);
  ASSERT_EQ(ftruncate(unsealed, 1 << 16), 0);
  EXPECT_THAT(MailboxSegment::Attach(FileDescriptor(unsealed), 1 << 16).status().ToString(),
              HasSubstr("not sealed"));
  // A file of another kind has no seals, although asking for them returns all bits.
  const std::string path = ::testing::TempDir() + "/mailbox-file-" + std::to_string(getpid());
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(ftruncate(file, 1 << 16), 0);
  EXPECT_THAT(MailboxSegment::Attach(FileDescriptor(file), 1 << 16).status().ToString(),
              HasSubstr("not sealed"));
  unlink(path.c_str());
}

TEST(MailboxSegmentTest, SegmentsWhoseHeaderLiesAreRefused) {
  const auto error = [](auto change) {
    absl::StatusOr<MailboxSegment> segment = MailboxSegment::Create(1 << 14);
    EXPECT_TRUE(segment.ok()) << segment.status();
    change(segment->header());
    return MailboxSegment::Attach(FileDescriptor(dup(segment->fd())), 1 << 14).status().ToString();
  };
  for (const uint64_t slot_bytes : {uint64_t{0}, uint64_t{1} << 63, UINT64_MAX, (uint64_t{1} << 14) - 4096})
    EXPECT_THAT(error([&](SegmentHeader& h) { h.slot_bytes.store(slot_bytes); }), HasSubstr("header"));
  EXPECT_THAT(error([](SegmentHeader& h) { h.magic.store(7); }), HasSubstr("run the same release"));
  EXPECT_EQ(error([](SegmentHeader&) {}), "OK");
}

// It is not mapped, because mapping allocates pages in the cgroup of the process that maps.
TEST(MailboxSegmentTest, ASegmentLargerThanTheLargestCallIsRefusedBeforeItIsMapped) {
  const auto segment = MailboxSegment::Create(1 << 16);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const int fd = fcntl(segment->fd(), F_DUPFD_CLOEXEC, 0);
  EXPECT_TRUE(MailboxSegment::Attach(FileDescriptor(dup(fd)), (1 << 16) - 100).ok()) << "whole pages";
  EXPECT_THAT(MailboxSegment::Attach(FileDescriptor(fd), 1 << 15).status().ToString(),
              HasSubstr("slots have 65536 bytes, expected at most 32768"));
  // As large as its header says, sealed, and with only one page allocated.
  const int sparse = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  constexpr uint64_t kSlot = uint64_t{1} << 40;
  const uint64_t words[2] = {segment->header().magic.load(), kSlot};
  ASSERT_EQ(ftruncate(sparse, 4096 + 2 * kSlot), 0);
  ASSERT_EQ(pwrite(sparse, words, sizeof words, 0), static_cast<ssize_t>(sizeof words));
  ASSERT_EQ(fcntl(sparse, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_THAT(MailboxSegment::Attach(FileDescriptor(dup(sparse)), 1 << 20).status().ToString(),
              HasSubstr("expected at most 1048576"));
  struct stat info;
  ASSERT_EQ(fstat(sparse, &info), 0);
  EXPECT_LE(info.st_blocks * 512, 2 << 20) << "the header's page alone";
  close(sparse);
}

TEST(MailboxSegmentTest, ReservedPagesAreRefused) {
  const int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  if (fd < 0) GTEST_SKIP() << "this kernel has no memory files of reserved pages";
  ASSERT_EQ(ftruncate(fd, 2 << 20), 0);
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_THAT(MailboxSegment::Attach(FileDescriptor(fd), 1 << 20).status().ToString(),
              HasSubstr("reserved huge pages"));
}

TEST(MailboxSegmentTest, DescriptorsTravelOverASocket) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  absl::StatusOr<MailboxSegment> segment = MailboxSegment::Create(4096);
  ASSERT_TRUE(SendDescriptor(sockets[0], segment->fd()).ok());
  auto fd = ReceiveDescriptor(sockets[1]);
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_TRUE(MailboxSegment::Attach(*std::move(fd), 4096).ok());
  ASSERT_EQ(write(sockets[0], "n", 1), 1);
  EXPECT_THAT(ReceiveDescriptor(sockets[1]).status().ToString(), HasSubstr("0 descriptors, expected 1"));
  close(sockets[0]);
  EXPECT_TRUE(absl::IsUnavailable(ReceiveDescriptor(sockets[1]).status()));
  close(sockets[1]);
}

// Returns the number of this process's descriptors that the peer of a socket could leave behind.
size_t CountDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(MailboxSegmentTest, UnexpectedDescriptorsAreClosed) {
  const auto [ours, theirs] = MakeSockets();
  for (const size_t count : {2, 3, 100}) {
    const size_t before = CountDescriptors();
    const std::vector<int> sent(count, theirs.get());
    char byte = 'R';
    iovec data{&byte, 1};
    std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(header), sent.data(), count * sizeof(int));
    ASSERT_EQ(sendmsg(theirs.get(), &message, 0), 1);
    const absl::Status refused = ReceiveDescriptor(ours.get()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(refused.ToString(), HasSubstr("expected 1"));
    EXPECT_EQ(CountDescriptors(), before) << count;
  }
}

}  // namespace
}  // namespace numoe
