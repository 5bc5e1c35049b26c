// A whole file mapped read-only; unmapped when destroyed.
//
// Errors name the path and the reason. An empty file maps to an empty span. The file must not shrink while
// mapped (checkpoints are immutable once published). Move-only; const access from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace numoe {

class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::filesystem::path& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const std::byte> bytes() const { return bytes_; }

 private:
  absl::Span<const std::byte> bytes_;
};

/// The text of a file of at most `bytes_max` bytes.
absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path, uint64_t bytes_max);

}  // namespace numoe
