// Expert selection on the device: the gate's logits for a step's rows, then each row's experts and their
// weights in the sum.
//
// It has the same formulas, order of preference and order of fp32 operations as GateSelector
// (coordinator/execution/gate/gate.h), against which it is tested expert by expert: with equal logits and an
// exp that rounds in the same way, it selects the same experts. Logits are fp32 sums of exact products, in an
// order that depends only on the matrix, so a row's experts never depend on the batch.
//   Limits. Decode is limited by memory bandwidth: the weight is read once, and 384 experts x 7168 in BF16
// are 5.5 MB, 1.6 us on an H100. Therefore the sum over the hidden state is divided among the warps of a
// block, and the experts among blocks. Prefill is limited by the fp32 units: a block multiplies 16 rows by 4
// experts in registers (8 experts would spill).
#pragma once

#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kGateExpertsMax = 512;
inline constexpr int kGateChosenMax = 32;  // experts per token, one lane for each
inline constexpr int kGateGroupsMax = 32;

/// logits[t, e] = sum over h of in[t, h] * weight[e, h]. REQUIRES: hidden % 8 == 0, addresses 16-byte
/// aligned.
template <class T>
struct GateLogitsArgs {
  const Bf16* in = nullptr;   // [rows, hidden]
  const T* weight = nullptr;  // [experts, hidden]
  float* logits = nullptr;    // [rows, experts]
  int rows = 0;
  int hidden = 0;
  int experts = 0;
};
void LaunchGateLogits(const GateLogitsArgs<float>& args, Stream stream);
void LaunchGateLogits(const GateLogitsArgs<Bf16>& args, Stream stream);

/// GateParams of coordinator/execution/gate/gate.h, and addresses. The best expert is first; ties go to the
/// lower index; deferred experts follow the others. A row whose position is -1 selects no expert: its experts
/// are -1, its weights 0. A NaN logit is the worst choice.
struct GateSelectArgs {
  const float* logits = nullptr;       // [rows, experts]
  const float* bias = nullptr;         // [experts], or null if there is no bias; only with sigmoid
  const int32_t* positions = nullptr;  // [rows]
  int32_t* chosen = nullptr;           // [rows, experts_per_token]
  float* weights = nullptr;            // [rows, experts_per_token]
  int rows = 0;
  int experts = 0;
  int experts_per_token = 0;
  bool sigmoid = true;  // true: sigmoid (noaux_tc), false: softmax
  int n_group = 1;
  int topk_group = 1;
  bool norm_topk_prob = true;
  float scaling = 1;
  int deferred_experts = 0;
};
void LaunchGateSelect(const GateSelectArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
