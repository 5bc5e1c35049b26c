// A checkpoint, mapped read-only and checked before use: a Hugging Face directory of safetensors files, or a
// GGUF model (gguf_checkpoint.h).
//
// For a directory, Open() maps every shard (model.safetensors, or the files that model.safetensors.index.json
// names), and checks all headers (bounds, overlaps, holes, sizes, dtypes, duplicates) and the index against
// them. Matrices are returned as MatrixView in the format in which they are stored. A module is quantised if
// its scale tensor exists:
//   X.weight (BF16/F16/F32)                                   plain
//   X.weight (F8_E4M3) + X.weight_scale_inv (F32 | BF16)      block FP8, W[i][j] = w * scale[i/128][j/128]
//   X.weight_packed (I32) + X.weight_scale (BF16|F16|F32) + X.weight_shape (I32 | I64)   INT4 groups,
//       nibble k of a row at bits 4*(k%8) of word k/8, value nibble - 8, scale[row][k/32]
// Formats: https://github.com/huggingface/safetensors, https://github.com/vllm-project/compressed-tensors,
// DeepSeek-V3 README_WEIGHTS.md. Errors (InvalidArgument, NotFound, DataLoss) name the file, the tensor, what
// was found and what was expected. Thread-safe after Open; views are valid as long as the Checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/ggml_blocks.h"
#include "common/tensor/tensor.h"
#include "common/weights/mapped_file.h"
#include "common/weights/model_config.h"

namespace numoe {

/// kGgml: blocks in one of GGUF's own formats (MatrixView::ggml). F32, F16 and BF16 in GGUF are the plain
/// formats.
enum class MatrixFormat : uint8_t { kF32, kF16, kBF16, kFp8Block, kInt4Group, kGgml };

/// The weight of a linear layer [rows = out features, cols = in features] as stored.
struct MatrixView {
  MatrixFormat format = MatrixFormat::kBF16;
  int64_t rows = 0;
  int64_t cols = 0;
  absl::Span<const std::byte> data;  // elements of {4,2,2,1,1/2} bytes, by MatrixFormat; kGgml: blocks
  absl::Span<const std::byte>
      scales;  // kFp8Block: [ceil(rows/block_rows), ceil(cols/block_cols)]; kInt4Group: [rows, cols/group]
  DType scale_dtype = DType::kF32;
  int block_rows = 1;              // kFp8Block 128; kInt4Group 1
  int block_cols = 1;              // kFp8Block 128; kInt4Group 32
  GgmlType ggml = GgmlType::kF32;  // kGgml: the type of its blocks, which contain their scales
};

/// Decodes the rectangle [row_begin, row_end) x [col_begin, col_end) to fp32, row-major, into `out`.
/// REQUIRES: the rectangle is inside the matrix; out.size() is its area.
void DecodeMatrix(const MatrixView& matrix, int64_t row_begin, int64_t row_end, int64_t col_begin,
                  int64_t col_end, absl::Span<float> out);

class Checkpoint {
 public:
  /// `model` is a directory of safetensors files, a .gguf file, or a directory that contains one GGUF model.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::filesystem::path& model);
  virtual ~Checkpoint() = default;

  virtual bool Has(std::string_view tensor) const = 0;
  /// NotFound names the tensor, the directory and the closest names that exist.
  virtual absl::StatusOr<TensorView> Find(std::string_view tensor) const = 0;
  /// Returns a vector (norm weight, bias) decoded to fp32. InvalidArgument if its shape is not [size].
  virtual absl::StatusOr<std::vector<float>> ReadVector(std::string_view tensor, int64_t size) const = 0;
  /// Returns the weight of linear module `module` (without the suffix ".weight"), after checking that it is
  /// [rows, cols] and that its scales are finite.
  virtual absl::StatusOr<MatrixView> FindMatrix(std::string_view module, int64_t rows, int64_t cols,
                                                const ModelConfig& config) const = 0;
  /// Does the same from the headers alone, without reading a weight. It is for callers that read the bytes
  /// from the file and check them themselves (matrix_checks.h). Views of checkpoints in memory are checked
  /// already.
  virtual absl::StatusOr<MatrixView> LocateMatrix(std::string_view module, int64_t rows, int64_t cols,
                                                  const ModelConfig& config) const {
    return FindMatrix(module, rows, cols, config);
  }
  /// Returns the file that maps these bytes of a view; null if they are in memory.
  virtual const MappedFile* FileOf(absl::Span<const std::byte>) const { return nullptr; }
  /// Returns "FILE: tensor NAME" for bytes of a view, for errors.
  virtual std::string DescribeBytes(absl::Span<const std::byte>) const { return "tensor in memory"; }
  virtual std::vector<std::string> TensorNames() const = 0;  // sorted
  virtual uint64_t TotalBytes() const = 0;
  /// Returns the number by which two processes find out that they opened the same weights (fingerprint.h).
  /// Reads a sample of every tensor each time that it is called.
  virtual absl::StatusOr<uint64_t> Fingerprint() const = 0;
};

}  // namespace numoe
