#include "expert_worker/tools/synthetic_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "common/formats/bf16.h"
#include "common/formats/fp16.h"
#include "common/formats/fp8.h"

namespace numoe {
namespace {

constexpr int64_t kOffsets = 4096;    // how many places in the pool a matrix may begin at
constexpr int64_t kOffsetStep = 256;  // bytes
constexpr size_t kBlockBytes = 144;   // of Q4_K, which a matrix begins with

MatrixFormat StoredAs(WeightFormat format) {
  if (format == WeightFormat::kRawInt4) return MatrixFormat::kInt4Group;
  if (format == WeightFormat::kQ4K) return MatrixFormat::kGgml;
  return format == WeightFormat::kFp8 ? MatrixFormat::kFp8Block : MatrixFormat::kBF16;
}

int64_t BytesFor(MatrixFormat format, int64_t weights) {
  if (format == MatrixFormat::kInt4Group) return weights / 2;
  if (format == MatrixFormat::kGgml) {
    const GgmlTraits& q4_k = TraitsOf(GgmlType::kQ4_K);
    return weights / q4_k.block_values * q4_k.block_bytes;
  }
  return format == MatrixFormat::kFp8Block ? weights : weights * 2;
}

// A Q4_K block of weights around zero with a deviation of about `scale`: random codes, scales of 32 to 63,
// and minima of 7.5 times their scale.
void PutQ4KBlock(std::byte* block, float scale, std::mt19937_64& random) {
  const float d = scale / 4.6f / 48, dmin = 7.5f * d;  // uniform codes deviate by 4.6
  const uint16_t factors[2] = {EncodeF16(d), EncodeF16(dmin)};
  uint8_t packed[12], codes[128];
  uint8_t scales[8];
  for (uint8_t& s : scales) s = static_cast<uint8_t>(32 + random() % 32);
  for (int j = 0; j < 4; ++j) {
    packed[j] = packed[j + 4] = static_cast<uint8_t>(scales[j] | (scales[j + 4] >> 4 << 6));
    packed[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) * 17);
  }
  for (uint8_t& pair : codes) pair = static_cast<uint8_t>(random());
  std::memcpy(block, factors, sizeof factors);
  std::memcpy(block + sizeof factors, packed, sizeof packed);
  std::memcpy(block + sizeof factors + sizeof packed, codes, sizeof codes);
}

template <typename T>
void Fill(std::vector<std::byte>& out, size_t count, const std::function<T()>& next) {
  out.resize(count * sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    const T value = next();
    std::memcpy(&out[i * sizeof(T)], &value, sizeof value);
  }
}

}  // namespace

SyntheticCheckpoint::SyntheticCheckpoint(const SyntheticOptions& options)
    : stored_(StoredAs(options.format)) {
  config_.model_type = "deepseek_v3";
  config_.hidden_size = options.hidden_size;
  config_.num_layers = 1;
  config_.layer_is_moe = {true};
  config_.moe_intermediate_size = options.intermediate_size;
  config_.num_experts = options.experts;
  config_.experts_per_token = options.experts_per_token;
  const int64_t weights = int64_t{options.hidden_size} * options.intermediate_size;
  const auto bytes = static_cast<size_t>(BytesFor(stored_, weights) + kOffsets * kOffsetStep);
  std::mt19937_64 random(1);
  // Keeps sums over `hidden` and over `intermediate` inputs near 1.
  const float scale = 1.0f / std::sqrt(std::sqrt(static_cast<float>(options.hidden_size) *
                                                 static_cast<float>(options.intermediate_size)));
  std::normal_distribution<float> normal(0, scale);
  if (stored_ == MatrixFormat::kGgml) {
    pool_.resize(bytes / kBlockBytes * kBlockBytes);
    for (size_t at = 0; at < pool_.size(); at += kBlockBytes) PutQ4KBlock(&pool_[at], scale, random);
  } else if (stored_ == MatrixFormat::kBF16) {
    const int levels = options.format == WeightFormat::kInt8   ? 127
                       : options.format == WeightFormat::kInt4 ? 7
                                                               : 0;
    const float step =
        std::exp2(std::floor(std::log2(scale / static_cast<float>(std::max(levels, 1)) * 1.7f)));
    size_t i = 0;
    Fill<uint16_t>(pool_, bytes / 2, [&] {
      if (levels == 0) return EncodeBf16(normal(random));
      // A code times a power of two, with the largest code in every group: loading quantises it without a
      // loss.
      const auto code = static_cast<int>(random() % static_cast<unsigned>(2 * levels + 1)) - levels;
      return EncodeBf16(static_cast<float>(i++ % 32 == 0 ? levels : code) * step);
    });
  } else if (stored_ == MatrixFormat::kFp8Block) {
    Fill<uint8_t>(pool_, bytes, [&] { return EncodeFp8(normal(random) / scale * 64); });
    Fill<float>(scales_, static_cast<size_t>(weights / 128) + kOffsets, [&] { return scale / 64; });
  } else {
    Fill<uint64_t>(pool_, bytes / 8, [&] { return random(); });
    // Codes are uniform in -8..7 with a deviation of 4.6.
    Fill<uint16_t>(scales_, static_cast<size_t>(weights / 32) + kOffsets * kOffsetStep, [&] {
      return EncodeBf16(scale / 4.6f * (0.5f + static_cast<float>(random() % 256) / 256));
    });
  }
}

absl::StatusOr<TensorView> SyntheticCheckpoint::Find(std::string_view tensor) const {
  return absl::NotFoundError("the synthetic checkpoint has experts only, not " + std::string(tensor));
}
absl::StatusOr<std::vector<float>> SyntheticCheckpoint::ReadVector(std::string_view tensor, int64_t) const {
  return Find(tensor).status();
}

absl::StatusOr<MatrixView> SyntheticCheckpoint::FindMatrix(std::string_view module, int64_t rows,
                                                           int64_t cols, const ModelConfig&) const {
  const size_t place = std::hash<std::string_view>()(module) % kOffsets;
  const size_t offset_step = stored_ == MatrixFormat::kGgml ? kBlockBytes : kOffsetStep;
  const auto bytes = static_cast<size_t>(BytesFor(stored_, rows * cols));
  MatrixView view{.format = stored_,
                  .rows = rows,
                  .cols = cols,
                  .data = absl::MakeConstSpan(pool_).subspan(place * offset_step, bytes),
                  .scales = {},
                  .ggml = GgmlType::kQ4_K};
  if (stored_ == MatrixFormat::kInt4Group) {
    view.block_cols = 32;
    view.scale_dtype = DType::kBF16;
    view.scales = absl::MakeConstSpan(scales_).subspan(place * 2, static_cast<size_t>(rows * cols / 32) * 2);
  } else if (stored_ == MatrixFormat::kFp8Block) {
    view.block_rows = view.block_cols = 128;
    view.scales = absl::MakeConstSpan(scales_).subspan(0, static_cast<size_t>(rows / 128 * (cols / 128)) * 4);
  }
  return view;
}

}  // namespace numoe
