// A model in GGUF: one file, or all parts of a split one, mapped read-only, checked and merged.
//
// Parts are named STEM-00001-of-0000N.gguf; the first holds the metadata, each its own tensors. Locate()
// finds the file that a --model path means; Open() checks that all parts are there, that split.no,
// split.count and split.tensors.count say so too, and that no tensor is in two parts. Errors name the file,
// what was found and what was expected. Thread-safe after Open; views live as long as the GgufModel.
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
  /// The (first) file of the model that `path` means: a .gguf file, any part of a split one, or a folder with
  /// the files of one model and no safetensors. nullopt: `path` is not GGUF. InvalidArgument: a folder of
  /// several models.
  static absl::StatusOr<std::optional<std::filesystem::path>> Locate(const std::filesystem::path& path);
  static absl::StatusOr<std::unique_ptr<GgufModel>> Open(const std::filesystem::path& file);

  const std::string& path() const { return path_; }  // of the first file, for messages
  /// The first part's metadata, all parts' tensors.
  const GgufFile& contents() const { return contents_; }
  /// The part that maps these bytes of a tensor; null: none does.
  const MappedFile* FileOf(absl::Span<const std::byte> bytes) const;
  uint64_t TotalBytes() const { return total_bytes_; }
  /// Checkpoint::Fingerprint: the same for a model in one file and in parts.
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
