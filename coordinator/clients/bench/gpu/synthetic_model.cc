#include "coordinator/clients/bench/gpu/synthetic_model.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "common/base/check.h"

namespace numoe::clients {
namespace {

constexpr size_t kOffsets = 4096;  // where in the pool a matrix may begin
constexpr size_t kOffsetBytes = 256;
constexpr size_t kDrawnBytes = size_t{32} << 20;  // the rest of the pool has copies of these bytes

static_assert(kDrawnBytes % sizeof(uint64_t) == 0 && kOffsetBytes % sizeof(uint64_t) == 0);

}  // namespace

SyntheticModel::SyntheticModel(const ModelConfig& c) {
  const int64_t widest =
      std::max({int64_t{c.vocab_size} * c.hidden_size, int64_t{c.intermediate_size} * c.hidden_size,
                int64_t{c.num_heads} * (c.qk_nope_head_dim + c.qk_rope_head_dim + c.v_head_dim) *
                    std::max({c.hidden_size, c.q_lora_rank, c.kv_lora_rank})});
  pool_.resize(static_cast<size_t>(widest) * 2 + kOffsets * kOffsetBytes);
  std::mt19937_64 random(5);
  const size_t drawn = std::min(kDrawnBytes, pool_.size()) / 8 * 8;
  for (size_t at = 0; at < drawn; at += 8) {  // between 2^-8 and 2^-6, of either sign
    const uint64_t four = (random() & 0x80ff80ff80ff80ffu) | 0x3b003b003b003b00u;
    std::memcpy(&pool_[at], &four, sizeof four);
  }
  for (size_t at = drawn; at < pool_.size(); at += drawn)
    std::memcpy(&pool_[at], pool_.data(), std::min(drawn, pool_.size() - at));
}

absl::StatusOr<TensorView> SyntheticModel::Find(std::string_view tensor) const {
  return absl::NotFoundError("the synthetic model has matrices and vectors only, not " + std::string(tensor));
}

absl::StatusOr<std::vector<float>> SyntheticModel::ReadVector(std::string_view tensor, int64_t size) const {
  const bool bias = tensor.find("bias") != std::string_view::npos;
  return std::vector<float>(static_cast<size_t>(size), bias ? 0.0f : 1.0f);
}

absl::StatusOr<MatrixView> SyntheticModel::FindMatrix(std::string_view module, int64_t rows, int64_t cols,
                                                      const ModelConfig&) const {
  NUMOE_CHECK(rows > 0 && cols > 0) << module << ": " << rows << " x " << cols;
  const auto bytes = static_cast<size_t>(rows) * static_cast<size_t>(cols) * 2;
  const size_t offset = std::hash<std::string_view>()(module) % kOffsets * kOffsetBytes;
  if (offset + bytes > pool_.size()) {
    return absl::InternalError("matrix " + std::string(module) +
                               " is larger than the pool of random weights");
  }
  return MatrixView{.rows = rows, .cols = cols, .data = absl::MakeConstSpan(pool_).subspan(offset, bytes)};
}

}  // namespace numoe::clients
