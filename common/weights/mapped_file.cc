#include "common/weights/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/weights/input_file.h"

namespace numoe {

absl::StatusOr<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const FileDescriptor fd, OpenRegularFile(path));
  MappedFile file;
  ASSIGN_OR_RETURN(file.identity_, IdentityOf(fd.get(), path));
  file.path_ = path;
  if (file.identity_.size > 0) {
    const size_t size = file.identity_.size;
    void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (address == MAP_FAILED) {
      const int code = errno;
      const std::string message = fmt::format("{}: cannot map: {}", path.string(), std::strerror(code));
      return code == ENOMEM || code == EAGAIN || code == ENFILE ? absl::UnavailableError(message)
                                                                : absl::InvalidArgumentError(message);
    }
    file.bytes_ = absl::MakeConstSpan(static_cast<const std::byte*>(address), size);
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), path_(std::move(other.path_)), identity_(other.identity_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

bool MappedFile::Holds(absl::Span<const std::byte> part) const {
  return !bytes_.empty() && part.data() >= bytes_.data() &&
         part.data() + part.size() <= bytes_.data() + bytes_.size();
}

bool InPageCache(absl::Span<const std::byte> part) {
  constexpr uintptr_t kPage = 4096;
  NUMOE_CHECK(!part.empty());
  const uintptr_t begin = reinterpret_cast<uintptr_t>(part.data()) / kPage * kPage;
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  std::vector<unsigned char> pages((end - begin + kPage - 1) / kPage);
  if (mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()) != 0) return false;
  return std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
}

absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path, uint64_t bytes_max) {
  ASSIGN_OR_RETURN(const FileDescriptor fd, OpenRegularFile(path));
  ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(fd.get(), path));
  if (identity.size > bytes_max) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes, expected at most {}", path.string(), identity.size, bytes_max));
  }
  std::string text(identity.size, '\0');
  RETURN_IF_ERROR(
      ReadFully(fd.get(), path, 0, absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size())));
  return text;
}

}  // namespace numoe
