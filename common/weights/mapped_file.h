// A whole file mapped read-only; unmapped when destroyed.
//
// Errors name the path and the reason. An empty file maps to an empty span. The file must not shrink while
// its bytes are used through the mapping, because that is a SIGBUS. Code that reads much, or reads files that
// another program may still be writing, uses the mapping only for addresses and reads through InputFile
// (input_file.h). Move-only; const access from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace numoe {

/// Identifies a file and its state: equal if and only if the content is the one that was opened.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;        // bytes
  int64_t modified_ns = 0;  // since the epoch
  bool operator==(const FileIdentity&) const = default;
};

class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::filesystem::path& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  const FileIdentity& identity() const { return identity_; }

  /// Returns whether `part` is in this mapping.
  bool Holds(absl::Span<const std::byte> part) const;

 private:
  absl::Span<const std::byte> bytes_;
  std::filesystem::path path_;
  FileIdentity identity_;
};

/// Returns whether the page cache holds all of `part`, a piece of a MappedFile, as far as the kernel says.
/// For files that this user could not write the kernel always says yes (mincore(2)). It does not touch the
/// bytes.
bool InPageCache(absl::Span<const std::byte> part);

/// Returns the text of a file of at most `bytes_max` bytes.
absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path, uint64_t bytes_max);

}  // namespace numoe
