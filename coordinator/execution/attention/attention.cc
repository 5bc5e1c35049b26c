#include "coordinator/execution/attention/attention.h"

#include "coordinator/execution/attention/gqa.h"
#include "coordinator/execution/attention/mla.h"

namespace numoe::execution {

std::unique_ptr<Attention> MakeAttention(const ModelConfig& config, DeviceStore& store, StepClock& clock) {
  if (config.attention == AttentionKind::kMla) return std::make_unique<MlaAttention>(config, store, clock);
  return std::make_unique<GqaAttention>(config, store, clock);
}

}  // namespace numoe::execution
