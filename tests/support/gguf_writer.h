// Writes small GGUF files for tests: any keys and tensors, as one file or in parts.
//
// Keys and tensors are written in the order in which they were added, tensors padded to 32 bytes. One thread;
// errors are CHECKs, because no input comes from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/formats/ggml_blocks.h"
#include "common/tensor/tensor.h"
#include "common/weights/gguf.h"

namespace numoe {

class GgufWriter {
 public:
  /// Replaces an existing key.
  void Set(const std::string& key, uint32_t value);
  void Set(const std::string& key, float value);
  void Set(const std::string& key, bool value);
  void Set(const std::string& key, const std::string& value);
  void Set(const std::string& key, const char* value) { Set(key, std::string(value)); }
  void Set(const std::string& key, const std::vector<std::string>& values);
  void Set(const std::string& key, const std::vector<int32_t>& values);
  /// The elements in their stored form.
  void SetRaw(const std::string& key, GgufType type, std::vector<std::byte> bytes);
  void Remove(const std::string& key);

  /// `shape` is row-major, [out, in].
  void AddTensor(const std::string& name, GgmlType type, const Shape& shape, std::vector<std::byte> data);
  void RemoveTensor(const std::string& name);
  bool HasTensor(const std::string& name) const;

  std::vector<std::byte> Bytes() const;
  void Write(const std::filesystem::path& file) const;
  /// Writes DIR/STEM-0000I-of-0000N.gguf, with the tensors distributed in turn and all keys in the first
  /// part.
  void WriteParts(const std::filesystem::path& dir, const std::string& stem, int parts) const;

 private:
  struct Key {
    std::string name;
    std::vector<std::byte> value;  // type and elements
  };
  struct Tensor {
    std::string name;
    GgmlType type;
    Shape shape;
    std::vector<std::byte> data;
  };

  void SetBytes(const std::string& key, std::vector<std::byte> value);

  std::vector<Key> keys_;
  std::vector<Tensor> tensors_;
};

}  // namespace numoe
