// A model in GGUF: one file, or all parts of a split one, mapped read-only, checked and merged.
//
// Parts are named STEM-00001-of-0000N.gguf. The first part contains the metadata, and each part its own
// tensors. Locate() finds the file that a --model path means. Open() checks that all parts exist, that
// split.no, split.count and split.tensors.count agree with that, and that no tensor is in two parts. Errors
// name the file, what was found and what was expected. Thread-safe after Open; views are valid as long as the
// GgufModel.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/weights/gguf.h"
#include "common/weights/mapped_file.h"

namespace numoe {

class GgufModel {
 public:
  /// Returns the (first) file of the model that `path` means: a .gguf file, any part of a split one, or a
  /// folder with the files of one model and without safetensors. nullopt if `path` is not GGUF.
  /// InvalidArgument for a folder with several models.
  static absl::StatusOr<std::optional<std::filesystem::path>> Locate(const std::filesystem::path& path);
  static absl::StatusOr<std::unique_ptr<GgufModel>> Open(const std::filesystem::path& file);

  const std::string& path() const { return path_; }  // of the first file, for messages
  /// Contains the first part's metadata and all parts' tensors.
  const GgufFile& contents() const { return contents_; }
  /// Returns the part that maps these bytes of a tensor; null if there is none.
  const MappedFile* FileOf(absl::Span<const std::byte> bytes) const;
  uint64_t TotalBytes() const { return total_bytes_; }
  /// See Checkpoint::Fingerprint. It is the same for a model in one file and in parts.
  absl::StatusOr<uint64_t> Fingerprint() const;

 private:
  explicit GgufModel(const std::filesystem::path& file) : path_(file.string()) {}
  absl::Status AddPart(const std::filesystem::path& file, int part, int parts);
  absl::Status CheckSplit(const GgufFile& header, const std::string& name, int part, int parts);
  absl::Status CheckTensorCount() const;

  const std::string path_;
  std::vector<MappedFile> files_;
  GgufFile contents_;
  uint64_t total_bytes_ = 0;
};

}  // namespace numoe
