// Writes small checkpoints for tests: any tensors, and random linear layers in every published weight format.
//
// Write() puts the tensors into DIR/model.safetensors as the format asks (contiguous, header padded to 8
// bytes). The random layers draw from one generator, so the same seed gives the same file. One thread; errors
// are CHECKs, as nothing here comes from outside.
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
  /// The stored bytes, to be changed by tests of bad files.
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

/// The values as they lie in memory, which is how a file of this machine holds them.
template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

/// A fresh folder, removed with everything in it at the end of the test.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path());
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }
  /// Writes `text` and the end of a line into a file below the folder, and makes the folders that it lies in.
  void WriteLine(const std::filesystem::path& file, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace numoe
