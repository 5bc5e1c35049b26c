#include "expert_worker/tools/synthetic_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "common/base/check.h"
#include "common/formats/bf16.h"
#include "common/formats/fp16.h"
#include "common/formats/fp8.h"

namespace numoe::worker {
namespace {

constexpr int64_t kOffsets = 4096;    // the number of places in the pool where a matrix may begin
constexpr int64_t kOffsetStep = 256;  // bytes
static_assert(kOffsetStep % 64 == 0, "matrices begin on whole cache lines");

MatrixFormat StoredAs(WeightFormat format) {
  if (format == WeightFormat::kRawInt4) return MatrixFormat::kInt4Group;
  if (GgmlTypeOf(format)) return MatrixFormat::kGgml;
  return format == WeightFormat::kFp8 ? MatrixFormat::kFp8Block : MatrixFormat::kBF16;
}

int64_t BytesFor(MatrixFormat format, GgmlType ggml, int64_t weights) {
  if (format == MatrixFormat::kInt4Group) return weights / 2;
  if (format == MatrixFormat::kGgml)
    return weights / TraitsOf(ggml).block_values * TraitsOf(ggml).block_bytes;
  return format == MatrixFormat::kFp8Block ? weights : weights * 2;
}

// Scales are 32 to 63 for d = `scale` / 48, and minima are 7.5 times their scale.
void PutQ4KScales(std::byte* block, float scale, std::mt19937_64& random) {
  const float d = scale / 48, dmin = 7.5f * d;
  const uint16_t factors[2] = {EncodeF16(d), EncodeF16(dmin)};
  uint8_t packed[12];
  uint8_t scales[8];
  for (uint8_t& s : scales) s = static_cast<uint8_t>(32 + random() % 32);
  for (int j = 0; j < 4; ++j) {
    packed[j] = packed[j + 4] = static_cast<uint8_t>(scales[j] | (scales[j + 4] >> 4 << 6));
    packed[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) * 17);
  }
  std::memcpy(block, factors, sizeof factors);
  std::memcpy(block + sizeof factors, packed, sizeof packed);
}

// Writes a block of weights around zero with a deviation of about `scale`. Codes are random; their deviation
// is 4.6 where they are uniform, 67 as IQ4's values, 5.9 as MXFP4's and 18.5 as Q6_K's.
void PutBlock(GgmlType type, std::byte* block, float scale, std::mt19937_64& random) {
  const auto put = [block](size_t at, float value) {
    const uint16_t bits = EncodeF16(value);
    std::memcpy(block + at, &bits, sizeof bits);
  };
  for (int i = 0; i < TraitsOf(type).block_bytes; ++i) block[i] = static_cast<std::byte>(random());
  switch (type) {
    case GgmlType::kQ4_1:
      put(2, -7.5f * scale / 4.6f);
      [[fallthrough]];
    case GgmlType::kQ4_0:
      return put(0, scale / 4.6f);
    case GgmlType::kIq4Nl:
      return put(0, scale / 67);
    case GgmlType::kIq4Xs:
      return put(0, scale / 67 / 18);  // scales are uniform in -32..31
    case GgmlType::kMxfp4:
      block[0] = static_cast<std::byte>(128 + std::lround(std::log2(scale / 5.9f)));
      return;
    case GgmlType::kQ6_K:
      return put(208, scale / 18.5f / 74);  // scales are uniform in -128..127
    default:
      return PutQ4KScales(block, scale / 4.6f, random);
  }
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
    : stored_(StoredAs(options.format)), ggml_(GgmlTypeOf(options.format).value_or(GgmlType::kF32)) {
  NUMOE_CHECK(options.hidden_size > 0 && options.intermediate_size > 0 && options.experts > 0);
  config_.model_type = "deepseek_v3";
  config_.hidden_size = options.hidden_size;
  config_.num_layers = 1;
  config_.layer_is_moe = {true};
  config_.moe_intermediate_size = options.intermediate_size;
  config_.num_experts = options.experts;
  config_.experts_per_token = options.experts_per_token;
  const int64_t weights = int64_t{options.hidden_size} * options.intermediate_size;
  const auto bytes = static_cast<size_t>(BytesFor(stored_, ggml_, weights) + kOffsets * kOffsetStep);
  std::mt19937_64 random(1);
  // Keeps sums over `hidden` and over `intermediate` inputs near 1.
  const float scale = 1.0f / std::sqrt(std::sqrt(static_cast<float>(options.hidden_size) *
                                                 static_cast<float>(options.intermediate_size)));
  std::normal_distribution<float> normal(0, scale);
  if (stored_ == MatrixFormat::kGgml) {
    const auto block = static_cast<size_t>(TraitsOf(ggml_).block_bytes);
    pool_.resize(bytes / block * block);
    for (size_t at = 0; at < pool_.size(); at += block) PutBlock(ggml_, &pool_[at], scale, random);
  } else if (stored_ == MatrixFormat::kBF16) {
    const int levels = options.format == WeightFormat::kInt8   ? 127
                       : options.format == WeightFormat::kInt4 ? 7
                                                               : 0;
    const float step =
        std::exp2(std::floor(std::log2(scale / static_cast<float>(std::max(levels, 1)) * 1.7f)));
    size_t i = 0;
    Fill<uint16_t>(pool_, bytes / 2, [&] {
      if (levels == 0) return EncodeBf16(normal(random));
      // A code times a power of two, with the largest code in every group, so that loading quantises it
      // without loss. The code may have either sign, because otherwise all outputs of a row would share an
      // error.
      const auto code = static_cast<int>(random() % static_cast<unsigned>(2 * levels + 1)) - levels;
      return EncodeBf16(static_cast<float>(i++ % 32 != 0 ? code : code < 0 ? -levels : levels) * step);
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
  NUMOE_CHECK_EQ(rows * cols, int64_t{config_.hidden_size} * config_.moe_intermediate_size);
  const size_t offset_step = stored_ == MatrixFormat::kGgml ? TraitsOf(ggml_).block_bytes : kOffsetStep;
  const auto bytes = static_cast<size_t>(BytesFor(stored_, ggml_, rows * cols));
  NUMOE_CHECK_LE(place * offset_step + bytes, pool_.size());
  MatrixView view{.format = stored_,
                  .rows = rows,
                  .cols = cols,
                  .data = absl::MakeConstSpan(pool_).subspan(place * offset_step, bytes),
                  .scales = {},
                  .ggml = ggml_};
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

}  // namespace numoe::worker
