// One GGUF file of version 2 or 3: its metadata and tensor headers, parsed and checked completely before any
// tensor is read.
//
// Format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), little-endian: "GGUF", u32 version, u64
// tensor count, u64 key count, the keys, the tensors' headers, zeros up to general.alignment (32 unless that
// key exists), data. It checks counts against weights_limits.h and the file's size, types, lengths, booleans,
// that there are no arrays of arrays, duplicate keys and names, dimensions, whole blocks in each row, sizes
// without overflow, offsets (aligned, in order, without overlaps and without holes except padding), and that
// the file contains all data. A pure function of bytes, so that it can be fuzzed. Errors name the file, the
// key or tensor, what was found and what was expected. Everything returned is a view of the file's bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/formats/ggml_blocks.h"
#include "common/tensor/tensor.h"

namespace numoe {

enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

/// A metadata value: one element, or an array of elements of one type.
struct GgufValue {
  GgufType type = GgufType::kU32;  // of the elements; never kArray
  bool is_array = false;
  uint64_t count = 1;
  absl::Span<const std::byte> data;  // the elements as stored; strings have their lengths

  /// nullopt if the value has another type, is an array, or is an integer beyond int64.
  std::optional<int64_t> Integer() const;  // any integer type, because writers differ in width and sign
  std::optional<double> Number() const;    // any integer or float type
  std::optional<bool> Bool() const;
  std::optional<std::string_view> String() const;
  /// nullopt if this is not an array of such elements.
  std::optional<std::vector<std::string_view>> Strings() const;
  std::optional<std::vector<int64_t>> Integers() const;

  /// Returns a text for messages: `7`, `"text"`, `an array of 3 strings`.
  std::string Describe() const;
};

struct GgufTensor {
  GgmlType type = GgmlType::kF32;
  Shape shape;                       // row-major, [out, in], the reverse of the order in the file
  absl::Span<const std::byte> data;  // rows of whole blocks
};

struct GgufFile {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::map<std::string, GgufTensor, std::less<>> tensors;
  absl::Span<const std::byte> header;  // everything before the data

  /// Returns nullptr if there is no such key or tensor.
  const GgufValue* Key(std::string_view name) const;
  const GgufTensor* Tensor(std::string_view name) const;
  /// Returns "" if there is no such key, or if its value is not a string.
  std::string Text(std::string_view key) const;
};

absl::StatusOr<GgufFile> ParseGguf(absl::Span<const std::byte> file, std::string_view name);

}  // namespace numoe
