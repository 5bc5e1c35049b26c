#include "common/weights/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/status.h"

namespace numoe {

absl::StatusOr<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  const auto error = [&](const char* what) {
    const int code = errno;
    const std::string message = fmt::format("{}: {}: {}", path.string(), what, std::strerror(code));
    return code == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return error("cannot open");
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(fmt::format("{}: not a regular file", path.string()));
  }
  MappedFile file;
  if (info.st_size > 0) {
    void* address = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      const absl::Status status = error("cannot map");
      close(fd);
      return status;
    }
    file.bytes_ =
        absl::MakeConstSpan(static_cast<const std::byte*>(address), static_cast<size_t>(info.st_size));
  }
  close(fd);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path, uint64_t bytes_max) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  if (file.bytes().size() > bytes_max) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes, expected at most {}", path.string(), file.bytes().size(), bytes_max));
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

}  // namespace numoe
