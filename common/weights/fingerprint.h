// The fingerprint of a checkpoint: 64 bits by which coordinator and workers know that they have the same
// weights.
//
// It covers content, because checkpoints of one architecture share their headers: a fine-tune, which changes
// practically every weight, has another fingerprint; a copy in another folder or in other files has the same.
// It is XXH3 of 64 bits without a seed (https://xxhash.com) of a record. In records a number is a u64,
// little-endian; a text is its length as a number and its bytes; a hash is the XXH3 of bytes as a number.
//   text kFingerprintName
//   of safetensors: text "config.json", hash of that whole file
//   of GGUF:        text "metadata"; the number of keys; for each key in byte order: text key, the number of
//                   its elements' type, 1 if it is an array or else 0, the number of elements, hash of the
//                   elements as stored. Keys that begin with "split." are left out: they tell parts apart.
//   the number of tensors; for each tensor in byte order of the names the hash of a record of its own:
//     text name; text type, as "BF16" or "Q4_K"; the number of dimensions and the dimensions, row-major; for
//     each begun piece of kFingerprintPieceBytes of its data the hash of the piece's sample
// A sample is the piece itself if it has at most kFingerprintWholeBytesMax, or else kFingerprintSampleBytes
// from byte (piece's size - kFingerprintSampleBytes) / 2 of it on.
//
// Not for security, and no checksum: bytes outside of samples change nothing. FingerprintOf reads samples and
// nothing else, past the mappings, so that a file that was cut short is an error with its name. It
// has no other effect; it starts threads, which have ended when it returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/weights/mapped_file.h"

namespace numoe {

inline constexpr std::string_view kFingerprintName = "numoe-fingerprint-2";  // another name: another record
inline constexpr size_t kFingerprintPieceBytes = 32 << 20;  // a checkpoint of 1 TB: 30,000 samples beside one
                                                            // for each of its small tensors
inline constexpr size_t kFingerprintSampleBytes = 512;      // 1,024 weights of 4 bits, 256 of 16
inline constexpr size_t kFingerprintWholeBytesMax = 4096;   // a page: storage reads no less

class FingerprintRecord {
 public:
  void AddNumber(uint64_t value);
  void AddText(std::string_view text);
  void AddHash(absl::Span<const std::byte> bytes);
  void AddHash(std::string_view text);
  /// XXH3 of all that was added.
  uint64_t Hash() const;

 private:
  std::string bytes_;
};

struct FingerprintTensor {
  std::string_view name;
  std::string_view type;
  absl::Span<const int64_t> shape;
  absl::Span<const std::byte> data;  // where one of the files is mapped
};

/// `record`: all that comes before the number of tensors. REQUIRES: `tensors` in byte order of their names.
/// Errors: a file that changed since it was mapped, or that cannot be read.
absl::StatusOr<uint64_t> FingerprintOf(FingerprintRecord record, absl::Span<const FingerprintTensor> tensors,
                                       absl::Span<const MappedFile> files);

}  // namespace numoe
