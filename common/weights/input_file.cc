#include "common/weights/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe {
namespace {

// cachestat(2), which exists since Linux 6.5, and which the C library's headers may lack.
constexpr long kCachestatCall = 451;
struct CachestatRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};
struct Cachestat {
  uint64_t cached = 0;  // pages
  uint64_t dirty = 0, writeback = 0, evicted = 0, recently_evicted = 0;
};

// Returns whether the page cache holds all of the range, as far as the kernel says. cachestat takes a tenth
// of mincore's time, because mincore looks up every page separately; older kernels and the filters of some
// containers do not have it.
bool IsCached(int fd, uint64_t offset, absl::Span<const std::byte> mapped) {
  NUMOE_DCHECK(!mapped.empty());
  const CachestatRange range{offset, mapped.size()};
  Cachestat found;
  if (syscall(kCachestatCall, fd, &range, &found, 0) != 0) return InPageCache(mapped);
  const uint64_t first = offset / kReadAlignment;
  const uint64_t last = (offset + mapped.size() - 1) / kReadAlignment;
  return found.cached == last - first + 1;
}

const char* KindOf(mode_t mode) {
  return S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a FIFO (named pipe)" : "a device";
}

// Returns whether an error of the system may be gone at the next try: a share that is unavailable, too many
// open files.
bool MayPass(int code) {
  return code == EIO || code == ESTALE || code == ETIMEDOUT || code == EMFILE || code == ENFILE ||
         code == ENOMEM || code == EINTR || code == EAGAIN;
}

absl::Status NotRegular(const std::filesystem::path& path, const char* found) {
  return absl::InvalidArgumentError(
      fmt::format("{}: is {}, expected a regular file; put the file itself there", path.string(), found));
}

// Opens the same file again, without the page cache; -1 if its file system does not allow that. It uses the
// descriptor, because another file may have the name by now. If /proc does not help, it uses the name, and
// checks that it is the same file.
FileDescriptor OpenDirect(int buffered, const std::filesystem::path& path, const FileIdentity& identity) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_DIRECT;
  FileDescriptor direct(open(fmt::format("/proc/self/fd/{}", buffered).c_str(), kFlags));
  if (direct.get() >= 0 || errno == EINVAL) return direct;
  direct = FileDescriptor(open(path.c_str(), kFlags | O_NONBLOCK));
  const absl::StatusOr<FileIdentity> found = IdentityOf(direct.get(), path);
  if (!found.ok() || *found != identity || fcntl(direct.get(), F_SETFL, O_DIRECT) != 0)
    return FileDescriptor();
  return direct;
}

}  // namespace

// Opening a FIFO waits for a writer, possibly forever, unless O_NONBLOCK is set. The flag is removed
// afterwards, because with it io_uring does not wait for a regular file's blocks.
absl::StatusOr<FileDescriptor> OpenRegularFile(const std::filesystem::path& path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    const int code = errno;
    if (code == ENXIO) return NotRegular(path, "a socket, or a device that is not there");
    const std::string message = fmt::format("{}: cannot open: {}", path.string(), std::strerror(code));
    if (MayPass(code)) return absl::UnavailableError(message);
    return code == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0)
    return absl::UnavailableError(fmt::format("{}: cannot stat: {}", path.string(), std::strerror(errno)));
  if (!S_ISREG(info.st_mode)) return NotRegular(path, KindOf(info.st_mode));
  if (fcntl(fd.get(), F_SETFL, 0) != 0)
    return absl::UnavailableError(fmt::format("{}: cannot prepare: {}", path.string(), std::strerror(errno)));
  return fd;
}

absl::StatusOr<FileIdentity> IdentityOf(int fd, const std::filesystem::path& path) {
  struct stat info;
  if (fstat(fd, &info) != 0)
    return absl::UnavailableError(fmt::format("{}: cannot stat: {}", path.string(), std::strerror(errno)));
  return FileIdentity{.device = info.st_dev,
                      .inode = info.st_ino,
                      .size = static_cast<uint64_t>(info.st_size),
                      .modified_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

absl::Status ShortReadError(const std::filesystem::path& path, uint64_t offset, uint64_t found,
                            uint64_t expected) {
  return absl::DataLossError(fmt::format(
      "{}: {} bytes at offset {}, expected {}: the file is shorter than its header says, or another program "
      "is changing it; copy it again",
      path.string(), found, offset, expected));
}

absl::Status ReadFully(int fd, const std::filesystem::path& path, uint64_t offset,
                       absl::Span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::DataLossError(
          fmt::format("{}: cannot read {} bytes at offset {}: {}; check the disk or the share on which it is",
                      path.string(), out.size(), offset, std::strerror(errno)));
    }
    if (got == 0) return ShortReadError(path, offset, done, out.size());
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

AlignedRead AlignRead(uint64_t offset, size_t size) {
  const uint64_t begin = offset / kReadAlignment * kReadAlignment;
  const uint64_t end = (offset + size + kReadAlignment - 1) / kReadAlignment * kReadAlignment;
  NUMOE_DCHECK(begin <= offset && offset - begin < kReadAlignment && offset + size <= end);
  return {.offset = begin, .size = end - begin, .skip = static_cast<size_t>(offset - begin)};
}

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Open(const MappedFile& mapped, bool direct) {
  auto file = std::unique_ptr<InputFile>(new InputFile);
  file->path_ = mapped.path();
  file->identity_ = mapped.identity();
  ASSIGN_OR_RETURN(file->buffered_fd_, OpenRegularFile(file->path_));
  RETURN_IF_ERROR(file->CheckUnchanged());
  struct statfs system;
  file->in_memory_ = fstatfs(file->buffered_fd_.get(), &system) == 0 && system.f_type == TMPFS_MAGIC;
  if (direct && !file->in_memory_)
    file->direct_fd_ = OpenDirect(file->buffered_fd_.get(), file->path_, file->identity_);
  file->direct_.store(file->direct_fd_.get() >= 0);
  return file;
}

bool InputFile::ReadCached(uint64_t offset, absl::Span<const std::byte> mapped, absl::Span<std::byte> out) {
  NUMOE_CHECK_LE(out.size(), mapped.size());
  if (in_memory_) return ReadFully(buffered_fd_.get(), path_, offset, out).ok();
  // This is asked first, because even a read that does not wait starts readahead if it finds nothing.
  if (!cache_known_.load(std::memory_order_relaxed) ||
      !IsCached(buffered_fd_.get(), offset, mapped.first(out.size())))
    return false;
  iovec target{out.data(), out.size()};
  const ssize_t got = preadv2(buffered_fd_.get(), &target, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  if (got == static_cast<ssize_t>(out.size())) return true;
  cache_known_.store(false);
  return false;
}

void InputFile::DropCache(uint64_t offset, uint64_t size) const {
  posix_fadvise(buffered_fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(size),
                POSIX_FADV_DONTNEED);
}

absl::Status InputFile::CheckUnchanged() const {
  ASSIGN_OR_RETURN(const FileIdentity now, IdentityOf(buffered_fd_.get(), path_));
  if (now == identity_) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("{}: has changed since it was opened ({} bytes, now {}); start again when it is complete",
                  path_.string(), identity_.size, now.size));
}

absl::Status CopyBytes(const MappedFile& mapped, absl::Span<const std::byte> part,
                       absl::Span<std::byte> out) {
  NUMOE_CHECK(mapped.Holds(part) && part.size() <= out.size() && part.size() <= kReadAlignment);
  ASSIGN_OR_RETURN(const auto file, InputFile::Open(mapped, /*direct=*/true));
  const auto offset = static_cast<uint64_t>(part.data() - mapped.bytes().data());
  out = out.first(part.size());
  if (file->ReadCached(offset, part, out)) return absl::OkStatus();
  alignas(kReadAlignment) std::byte blocks[2 * kReadAlignment];
  const AlignedRead range = AlignRead(offset, part.size());
  NUMOE_CHECK_LE(range.size, sizeof blocks);
  if (file->direct()) {
    const ssize_t got = pread(file->fd(), blocks, range.size, static_cast<off_t>(range.offset));
    if (got >= static_cast<ssize_t>(range.skip + part.size())) {
      std::memcpy(out.data(), blocks + range.skip, out.size());
      return absl::OkStatus();
    }
    file->GiveUpDirect();  // refused or too short; the buffered read reports the error
  }
  const absl::Status status = ReadFully(file->fd(), file->path(), offset, out);
  file->DropCache(range.offset, range.size);
  return status;
}

}  // namespace numoe
