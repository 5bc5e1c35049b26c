#include "common/transport/mailbox_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe {
namespace {

constexpr uint64_t kMagic = 0x354c49414d454f4dull;  // "MOEMAIL5" as little-endian bytes
constexpr size_t kHeaderBytes = 4096;
static_assert(sizeof(SegmentHeader) <= kHeaderBytes);
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);
// A device writes this format, too.
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::Status SystemError(const char* what) {
  return absl::InternalError(fmt::format("mailbox segment: {}: {}", what, std::strerror(errno)));
}

// A slot begins at the beginning of a page.
size_t WholePages(size_t bytes) { return (bytes + kHeaderBytes - 1) / kHeaderBytes * kHeaderBytes; }

// Collects all descriptors that came with a message, even if they were not expected.
std::vector<FileDescriptor> TakeDescriptors(msghdr& message) {
  std::vector<FileDescriptor> taken;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      taken.emplace_back(fd);
    }
  }
  return taken;
}

}  // namespace

size_t MailboxSegment::BytesFor(size_t slot_bytes) { return kHeaderBytes + 2 * WholePages(slot_bytes); }

absl::StatusOr<MailboxSegment> MailboxSegment::Create(size_t slot_bytes, uint64_t session) {
  NUMOE_CHECK(slot_bytes > 0 && session != 0);
  MailboxSegment segment;
  segment.slot_bytes_ = WholePages(slot_bytes);
  segment.bytes_ = BytesFor(slot_bytes);
  segment.fd_ = FileDescriptor(memfd_create("numoe-mailbox", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (segment.fd() < 0) return SystemError("memfd_create");
  if (ftruncate(segment.fd(), static_cast<off_t>(segment.bytes_)) != 0) return SystemError("ftruncate");
  if (fcntl(segment.fd(), F_ADD_SEALS, kSeals) != 0) return SystemError("sealing");
  RETURN_IF_ERROR(segment.Map());
  auto* header = new (segment.base_) SegmentHeader();
  header->magic.store(kMagic);
  header->slot_bytes.store(segment.slot_bytes_);
  header->session.store(session);
  segment.session_ = session;
  return segment;
}

absl::StatusOr<MailboxSegment> MailboxSegment::Attach(FileDescriptor fd, size_t slot_bytes_max) {
  MailboxSegment segment;
  segment.fd_ = std::move(fd);
  // A file that can no longer shrink keeps the size that is read after this check.
  if (!HasSeals(segment.fd(), kSeals)) {
    return absl::InvalidArgumentError(
        "mailbox segment: the worker's segment is not sealed, so it could shrink while it is used");
  }
  struct statfs system {};
  if (fstatfs(segment.fd(), &system) != 0) return SystemError("fstatfs");
  if (system.f_type == HUGETLBFS_MAGIC) {
    return absl::InvalidArgumentError(
        "mailbox segment: it is in reserved huge pages, expected normal pages, which a process can free; "
        "run the same release on both sides");
  }
  struct stat info {};
  if (fstat(segment.fd(), &info) != 0) return SystemError("fstat");
  // The header is read and not mapped, so that a segment that is too large costs nothing.
  uint64_t words[3] = {};  // magic, slot_bytes, session
  const ssize_t header = pread(segment.fd(), words, sizeof words, 0);
  if (header < 0) return SystemError("reading its header");
  if (static_cast<size_t>(header) < sizeof words) {
    return absl::InvalidArgumentError(
        fmt::format("mailbox segment: it has {} bytes, expected a header of at least {}; run the same "
                    "release on both sides",
                    header, sizeof words));
  }
  segment.bytes_ = static_cast<size_t>(info.st_size);
  segment.slot_bytes_ = words[1];
  segment.session_ = words[2];
  if (words[0] != kMagic || segment.slot_bytes_ % kHeaderBytes != 0 || segment.slot_bytes_ > segment.bytes_ ||
      segment.bytes_ != kHeaderBytes + 2 * segment.slot_bytes_) {
    return absl::InvalidArgumentError(fmt::format(
        "mailbox segment: its header says slots of {} bytes, which does not fit a segment of {} bytes "
        "of this release; run the same release on both sides",
        segment.slot_bytes_, segment.bytes_));
  }
  if (segment.slot_bytes_ > WholePages(slot_bytes_max)) {
    return absl::InvalidArgumentError(fmt::format(
        "mailbox segment: its slots have {} bytes, expected at most {}, the size of the largest call of this "
        "model; run the same release on both sides",
        segment.slot_bytes_, WholePages(slot_bytes_max)));
  }
  RETURN_IF_ERROR(segment.Map());
  return segment;
}

absl::Status MailboxSegment::Map() {
  NUMOE_CHECK(base_ == nullptr && fd() >= 0);
  NUMOE_CHECK_EQ(bytes_, kHeaderBytes + 2 * slot_bytes_);
  base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd(), 0);
  if (base_ == MAP_FAILED) {
    base_ = nullptr;
    return SystemError("mmap");
  }
  return absl::OkStatus();
}

MailboxSegment::MailboxSegment(MailboxSegment&& other) noexcept { *this = std::move(other); }

MailboxSegment& MailboxSegment::operator=(MailboxSegment&& other) noexcept {
  fd_ = std::move(other.fd_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(slot_bytes_, other.slot_bytes_);
  std::swap(session_, other.session_);
  return *this;
}

MailboxSegment::~MailboxSegment() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

void MailboxSegment::SealMappings() const { fcntl(fd(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL); }

std::byte* MailboxSegment::slot(Side side) const {
  NUMOE_DCHECK(base_ != nullptr);
  return static_cast<std::byte*>(base_) + kHeaderBytes + static_cast<size_t>(side) * slot_bytes_;
}

bool HasSeals(int fd, int seals) {
  const int found = fcntl(fd, F_GET_SEALS);
  return found >= 0 && (found & seals) == seals;  // -1, for other files, has every bit
}

absl::Status SendDescriptor(int socket, int fd) {
  NUMOE_CHECK(socket >= 0 && fd >= 0);
  char byte = 'R';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? absl::OkStatus() : SystemError("sendmsg");
}

absl::StatusOr<FileDescriptor> ReceiveDescriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  // Because of padding there is room for more than one, and the caller has to close all that the kernel
  // installed.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got == 0 || (got < 0 && errno == ECONNRESET))
    return absl::UnavailableError(
        "the worker closed the mailbox socket: it ended, or it refuses this process; in that case its log "
        "says why");
  if (got < 0) return SystemError("recvmsg");
  std::vector<FileDescriptor> taken = TakeDescriptors(message);
  if (taken.size() == 1 && (message.msg_flags & MSG_CTRUNC) == 0) return std::move(taken.front());
  return absl::InvalidArgumentError(fmt::format(
      "mailbox segment: the worker sent {} descriptors{}, expected 1; run the same release on both sides",
      taken.size(), (message.msg_flags & MSG_CTRUNC) == 0 ? "" : " and more"));
}

}  // namespace numoe
