// Reads files in pieces: without the page cache if the file system allows it, and never through a mapping.
//
// If a file is shorter than its header says, shrinks meanwhile, or has been replaced, that is an error with
// its path and offset, never a signal. Direct reads (O_DIRECT) need offset, length and memory aligned to
// kReadAlignment; AlignRead widens a range. If a file system refuses them - some FUSE and network file
// systems do, at open or at the first read - the file is read through the page cache, and DropCache removes
// what was added to it. Any thread may read; see open(2), preadv2(2), posix_fadvise(2).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_descriptor.h"
#include "common/weights/mapped_file.h"

namespace numoe {

/// Opens a file read-only. NotFound if there is no such file, InvalidArgument at once if it is a FIFO, a
/// socket, a device or a directory, Unavailable if another try may succeed (EIO, ESTALE, EMFILE and similar
/// errors).
absl::StatusOr<FileDescriptor> OpenRegularFile(const std::filesystem::path& path);
absl::StatusOr<FileIdentity> IdentityOf(int fd, const std::filesystem::path& path);
/// Fills `out`, or returns DataLoss if the file ends before that.
absl::Status ReadFully(int fd, const std::filesystem::path& path, uint64_t offset, absl::Span<std::byte> out);
absl::Status ShortReadError(const std::filesystem::path& path, uint64_t offset, uint64_t found,
                            uint64_t expected);

inline constexpr size_t kReadAlignment = 4096;  // bytes: a multiple of every block device's logical blocks

/// The aligned range that contains [offset, offset + size), which begins `skip` bytes after the range's
/// begin.
struct AlignedRead {
  uint64_t offset = 0;
  size_t size = 0;
  size_t skip = 0;
};
AlignedRead AlignRead(uint64_t offset, size_t size);

class InputFile {
 public:
  /// Opens the file that `mapped` maps. Unavailable if the file has been replaced or changed since then. If
  /// `direct` is false, it is read only through the page cache.
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(const MappedFile& mapped, bool direct);

  const std::filesystem::path& path() const { return path_; }
  /// Returns the descriptor for reads, and whether it is a direct one.
  bool direct() const { return direct_.load(std::memory_order_relaxed); }
  int fd() const { return direct() ? direct_fd_.get() : buffered_fd_.get(); }
  /// Returns whether its file system is in memory (tmpfs).
  bool in_memory() const { return in_memory_; }
  /// Call this if the file system accepted O_DIRECT at open and refused it at a read: reads are buffered from
  /// now on.
  void GiveUpDirect() { direct_.store(false); }

  /// Reads what is in the page cache. Returns false if not all of it is there, or if the kernel does not say
  /// (preadv2 with RWF_NOWAIT). `mapped` is the same range of the mapping.
  bool ReadCached(uint64_t offset, absl::Span<const std::byte> mapped, absl::Span<std::byte> out);
  /// Drops clean pages of this range from the page cache.
  void DropCache(uint64_t offset, uint64_t size) const;
  /// Returns Unavailable if the file has changed since it was opened: it may be complete at the next start.
  absl::Status CheckUnchanged() const;

 private:
  InputFile() = default;

  std::filesystem::path path_;
  FileIdentity identity_;
  FileDescriptor buffered_fd_;
  FileDescriptor direct_fd_;
  bool in_memory_ = false;  // tmpfs, where the page cache is the file
  std::atomic<bool> direct_{false};
  std::atomic<bool> cache_known_{true};  // mincore's answers have been right so far
};

/// Copies a few bytes (at most kReadAlignment) that `mapped` maps, and leaves the page cache unchanged.
absl::Status CopyBytes(const MappedFile& mapped, absl::Span<const std::byte> part, absl::Span<std::byte> out);

}  // namespace numoe
