#include "coordinator/execution/device/cuda/sampling_sizes.h"

#include <algorithm>

#include "coordinator/execution/device/cuda/kernels/sampling.h"

namespace numoe::execution::cuda {
namespace {

constexpr uint64_t kAlignment = 256;

uint64_t Aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
uint64_t Count(int value) { return static_cast<uint64_t>(value); }

}  // namespace

uint64_t SamplingSizes::rules_offset() const { return Aligned(Count(rows) * sizeof(SamplingRow)); }
uint64_t SamplingSizes::masks_offset() const {
  return rules_offset() + Aligned(rows == 0 ? 0 : Count(kSampleRulesMax) * sizeof(TokenRule));
}
uint64_t SamplingSizes::table_bytes() const {
  return masks_offset() + Count(slots) * Count(mask_words()) * sizeof(uint64_t);
}
uint64_t SamplingSizes::shaped_bytes() const { return Count(slots) * Count(vocab) * sizeof(float); }
uint64_t SamplingSizes::sampled_bytes() const { return Count(rows) * sizeof(SampledToken); }

SamplingSizes PlanSampling(int rows, int vocab, int sequences_max) {
  if (vocab == 0 || vocab % 4 != 0) return {};
  return {.rows = rows, .vocab = vocab, .slots = std::min({rows, sequences_max, kSampleSlotsMax})};
}

}  // namespace numoe::execution::cuda
