// Writes small checkpoints for tests: any tensors, and random linear layers in every published weight format.
//
// Write() writes the tensors into DIR/model.safetensors as the format requires (contiguous, header padded to
// 8 bytes). All random layers use one generator, so the same seed gives the same file. One thread; errors are
// CHECKs, because no input comes from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"
#include "common/weights/checkpoint.h"

namespace numoe {

class SafetensorsWriter {
 public:
  explicit SafetensorsWriter(uint32_t seed = 1) : random_(seed) {}

  void Add(const std::string& name, DType dtype, const Shape& shape, std::vector<std::byte> data);
  void Remove(const std::string& name);
  /// The stored bytes, which tests of malformed files change.
  std::vector<std::byte>& Bytes(const std::string& name);

  /// Tensors of linear layer `module` [rows, cols] with weights of about `scale`: kBF16; kFp8Block with F32
  /// scales of 128 x 128 blocks; kInt4Group with BF16 scales of groups of 32.
  void AddLinear(const std::string& module, MatrixFormat format, int rows, int cols, float scale);

  void Write(const std::filesystem::path& dir) const;

 private:
  struct Tensor {
    DType dtype;
    Shape shape;
    std::vector<std::byte> data;
  };

  std::map<std::string, Tensor> tensors_;
  std::mt19937 random_;
};

/// The bytes of the values in memory, which are those of a file on this machine.
template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

/// An empty temporary folder, which is removed with its contents at the end of the test.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path());
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }
  /// Writes `text` and a line end into a file below the folder, and makes the file's folders.
  void WriteLine(const std::filesystem::path& file, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace numoe
