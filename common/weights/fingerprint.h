// The fingerprint of a checkpoint: 64 bits by which coordinator and workers find out whether they have the
// same weights.
//
// It covers the content, because checkpoints of one architecture have the same headers. A fine-tune changes
// practically every weight and so has another fingerprint; a copy in another folder or in other files has the
// same one. It is XXH3 of 64 bits without a seed (https://xxhash.com) of a record. In records a number is a
// u64, little-endian; a text is its length as a number and its bytes; a hash is the XXH3 of bytes as a
// number.
//   text kFingerprintName
//   for safetensors: text "config.json", hash of that whole file
//   for GGUF:        text "metadata"; the number of keys; for each key in byte order: text key, the number of
//                    its elements' type, 1 if it is an array or else 0, the number of elements, hash of the
//                    elements as stored. Keys that begin with "split." are left out, because they differ
//                    between parts.
//   the number of tensors; for each tensor in byte order of the names the hash of a record of its own:
//     text name; text type, such as "BF16" or "Q4_K"; the number of dimensions and the dimensions, row-major;
//     for each piece of kFingerprintPieceBytes of its data (the last one may be shorter) the hash of its
//     sample
// The sample is the piece itself if it has at most kFingerprintWholeBytesMax bytes, otherwise
// kFingerprintSampleBytes that begin with byte (piece's size - kFingerprintSampleBytes) / 2.
//
// It is neither for security nor a checksum: bytes outside of samples change nothing. FingerprintOf reads
// only the samples, and not through the mappings, so that a truncated file is an error with its name. It has
// no other effect; the threads that it starts have ended when it returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/weights/mapped_file.h"

namespace numoe {

inline constexpr std::string_view kFingerprintName =
    "numoe-fingerprint-2";                                  // a change of the record needs another name
inline constexpr size_t kFingerprintPieceBytes = 32 << 20;  // 1 TB has 30,000 samples, and small tensors one
                                                            // each
inline constexpr size_t kFingerprintSampleBytes = 512;      // 1,024 weights of 4 bits, 256 of 16
inline constexpr size_t kFingerprintWholeBytesMax = 4096;   // a page, the least that storage reads

class FingerprintRecord {
 public:
  void AddNumber(uint64_t value);
  void AddText(std::string_view text);
  void AddHash(absl::Span<const std::byte> bytes);
  void AddHash(std::string_view text);
  /// Returns the XXH3 of all that was added.
  uint64_t Hash() const;

 private:
  std::string bytes_;
};

struct FingerprintTensor {
  std::string_view name;
  std::string_view type;
  absl::Span<const int64_t> shape;
  absl::Span<const std::byte> data;  // in the mapping of one of the files
};

/// `record`: all that comes before the number of tensors. REQUIRES: `tensors` are in byte order of their
/// names. Returns an error if a file changed since it was mapped, or cannot be read.
absl::StatusOr<uint64_t> FingerprintOf(FingerprintRecord record, absl::Span<const FingerprintTensor> tensors,
                                       absl::Span<const MappedFile> files);

}  // namespace numoe
