// Limits of checkpoints and of the models in them: files, headers, tensors, shapes.
//
// Constants only, with the unit in the name: bytes, or a number. A checkpoint beyond a limit is refused with
// an error that names the file and what was found; nothing is truncated. Layers and experts per token, which
// the transports check, too, are in common/base/limits.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::limits {

// --- checkpoints -----------------------------------------------------------------------------------------
// The safetensors reference reader refuses headers of more than 100 MB.
inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;
// The largest published config.json or tokenizer.json has 12 MB (tokenizer.json with merges); no real one has
// 256 MB.
inline constexpr uint64_t kJsonFileBytesMax = 256ull << 20;
// Kimi-K2.5 has 208,550 tensors in 64 files.
inline constexpr size_t kCheckpointTensorsMax = 4'000'000;
inline constexpr size_t kCheckpointFilesMax = 10'000;
// A published GGUF file has 40 to 70 keys; key names are limited by its specification.
inline constexpr uint64_t kGgufKeysMax = 65'536;
inline constexpr uint64_t kGgufKeyBytesMax = 65'535;
// ggml's reader refuses longer names of tensors, and more dimensions.
inline constexpr uint64_t kGgufTensorNameBytesMax = 63;
inline constexpr uint32_t kGgufDimensionsMax = 4;
// Files are aligned to 32 or 64 bytes; more than a page of the largest kind makes no sense.
inline constexpr uint64_t kGgufAlignmentMax = 1ull << 30;

// --- model -----------------------------------------------------------------------------------------------
inline constexpr int kHiddenSizeMax = 65'536;
inline constexpr int kExpertsMax = 4'096;
inline constexpr int kSharedExpertsMax = 64;
inline constexpr int kVocabularyMax = 1 << 24;  // the largest published vocabulary is 256k
inline constexpr int kHeadsMax = 4'096;
inline constexpr int kHeadDimMax = 4'096;
inline constexpr int kRankMax = 65'536;  // low-rank projections are narrower than the hidden state
inline constexpr int kIntermediateMax = 1 << 22;
inline constexpr int64_t kPositionsMax = int64_t{1} << 31;
inline constexpr double kEpsilonMin = 1e-12;                // 0 would divide a zero vector by zero
inline constexpr double kThetaMin = 1.1, kThetaMax = 1e12;  // YaRN divides by its logarithm

}  // namespace numoe::limits
