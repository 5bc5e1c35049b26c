// CpuLatentAttention: multi-head latent attention on the CPU, in absorbed or expanded form per sequence
// (latent_plan.h says which).
//
// In absorbed form, queries are multiplied by W_UK^T and attend to the cached latents, which all heads share;
// the result is multiplied by W_UV. In expanded form, each head's keys and values are computed from the
// latents part by part during attention. Source: https://arxiv.org/abs/2405.04434. One thread, the engine's;
// uses the pool.
#pragma once

#include <vector>

#include "coordinator/execution/device/cpu/cpu_attention.h"
#include "coordinator/execution/device/cpu/cpu_linear.h"
#include "coordinator/execution/device/cpu/latent_plan.h"

namespace numoe::execution {

class CpuLatentAttention {
 public:
  CpuLatentAttention(CpuAttention& attention, CpuLinear& linear, ThreadPool& pool)
      : attention_(attention), linear_(linear), pool_(pool) {}

  /// One attention call for all rows of the layout.
  struct Call {
    const StepLayout* layout = nullptr;
    const CacheMemory* cache = nullptr;
    LatentAttendArgs args;
    const std::vector<PackedMatrix>* key_up = nullptr;        // W_UK of each head
    const std::vector<PackedMatrix>* key_absorbed = nullptr;  // W_UK^T
    const std::vector<PackedMatrix>* value_up = nullptr;      // W_UV
    const float* query = nullptr;                             // [rows, heads * (nope + rope)]
    float* absorbed = nullptr;                                // [rows, heads * (latent + rope)], scratch
    float* context = nullptr;                                 // [rows, heads * latent], scratch
    float* out = nullptr;                                     // [rows, heads * value]
    Precision precision = Precision::kFast;
  };
  /// Chooses the form in which each row of the call attends; the plan is valid for all layers of its cache.
  LatentPlan Plan(const Call& call) const;
  void Attend(const Call& call, const LatentPlan& plan);

 private:
  void AttendAbsorbed(const Call& call, const LatentPlan& plan);
  void AttendExpanded(const Call& call, const LatentPlan& plan);
  void AbsorbQueries(const Call& call, const LatentPlan& plan);

  CpuAttention& attention_;
  CpuLinear& linear_;
  ThreadPool& pool_;
};

}  // namespace numoe::execution
