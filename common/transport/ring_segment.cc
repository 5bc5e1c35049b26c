#include "common/transport/ring_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/status.h"

namespace numoe {
namespace {

constexpr uint64_t kMagic = 0x33474e4952454f4dull;  // "MOERING3"
constexpr size_t kHeaderBytes = 4096;
static_assert(sizeof(SegmentHeader) <= kHeaderBytes);
static_assert(std::atomic<uint32_t>::is_always_lock_free);
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status SystemError(const char* what) {
  return absl::InternalError(fmt::format("ring segment: {}: {}", what, std::strerror(errno)));
}

}  // namespace

absl::StatusOr<RingSegment> RingSegment::Create(size_t slot_bytes) {
  RingSegment segment;
  segment.slot_bytes_ = (slot_bytes + kHeaderBytes - 1) / kHeaderBytes * kHeaderBytes;
  segment.bytes_ = kHeaderBytes + 2 * segment.slot_bytes_;
  segment.fd_ = memfd_create("numoe-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (segment.fd_ < 0) return SystemError("memfd_create");
  if (ftruncate(segment.fd_, static_cast<off_t>(segment.bytes_)) != 0) return SystemError("ftruncate");
  if (fcntl(segment.fd_, F_ADD_SEALS, kSeals) != 0) return SystemError("sealing");
  RETURN_IF_ERROR(segment.Map());
  auto* header = new (segment.base_) SegmentHeader();
  header->magic = kMagic;
  header->slot_bytes = segment.slot_bytes_;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  for (pthread_mutex_t& mutex : header->alive) pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return segment;
}

absl::StatusOr<RingSegment> RingSegment::Attach(int fd) {
  RingSegment segment;
  segment.fd_ = fd;
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError("fstat");
  if ((fcntl(fd, F_GET_SEALS) & kSeals) != kSeals) {
    return absl::InvalidArgumentError(
        "ring segment: the worker's segment is not sealed; it could shrink under us");
  }
  segment.bytes_ = static_cast<size_t>(info.st_size);
  if (segment.bytes_ < kHeaderBytes)
    return absl::InvalidArgumentError(fmt::format("ring segment: {} bytes, too few", segment.bytes_));
  RETURN_IF_ERROR(segment.Map());
  segment.slot_bytes_ = segment.header().slot_bytes;
  if (segment.header().magic != kMagic || segment.slot_bytes_ > segment.bytes_ ||
      segment.bytes_ != kHeaderBytes + 2 * segment.slot_bytes_) {
    return absl::InvalidArgumentError("ring segment: header does not describe a segment of this size");
  }
  return segment;
}

absl::Status RingSegment::Map() {
  base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (base_ == MAP_FAILED) {
    base_ = nullptr;
    return SystemError("mmap");
  }
  return absl::OkStatus();
}

RingSegment::RingSegment(RingSegment&& other) noexcept { *this = std::move(other); }

RingSegment& RingSegment::operator=(RingSegment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(slot_bytes_, other.slot_bytes_);
  return *this;
}

RingSegment::~RingSegment() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (fd_ >= 0) close(fd_);
}

std::byte* RingSegment::slot(Side side) const {
  return static_cast<std::byte*>(base_) + kHeaderBytes + static_cast<size_t>(side) * slot_bytes_;
}

absl::Status SendDescriptor(int socket, int fd) {
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

absl::StatusOr<int> ReceiveDescriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  int fd = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return SystemError("recvmsg");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof fd)) {
    return absl::InvalidArgumentError("ring segment: the worker sent no descriptor");
  }
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

}  // namespace numoe
