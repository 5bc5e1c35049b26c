#include "coordinator/execution/attention/attention.h"

#include <map>

#include "common/base/check.h"
#include "coordinator/execution/attention/gqa.h"
#include "coordinator/execution/attention/mla.h"

namespace numoe::execution {

namespace {

std::shared_ptr<Attention> MakeKind(AttentionKind kind, const ModelConfig& config, DeviceStore& store,
                                    StepClock& clock) {
  switch (kind) {
    case AttentionKind::kMla:
      return std::make_shared<MlaAttention>(config, store, clock);
    case AttentionKind::kGqa:
      return std::make_shared<GqaAttention>(config, store, clock);
  }
  return nullptr;
}

}  // namespace

std::vector<std::shared_ptr<Attention>> MakeAttention(const ModelConfig& config, DeviceStore& store,
                                                      StepClock& clock) {
  NUMOE_CHECK_EQ(config.layer_attention.size(), static_cast<size_t>(config.num_layers));
  std::map<AttentionKind, std::shared_ptr<Attention>> kinds;
  std::vector<std::shared_ptr<Attention>> layers;
  for (const AttentionKind kind : config.layer_attention) {
    std::shared_ptr<Attention>& one = kinds[kind];
    if (one == nullptr) one = MakeKind(kind, config, store, clock);
    NUMOE_CHECK(one != nullptr) << "attention of kind " << static_cast<int>(kind);
    layers.push_back(one);
  }
  return layers;
}

}  // namespace numoe::execution
