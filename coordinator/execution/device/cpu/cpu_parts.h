// CpuParts: the parts of the CPU device that a step uses.
//
// The CPU device (cpu_device.h) owns all of them and lends them to one step at a time; scratch is reused by
// the next step. Everything outlives the step. One thread, the engine's.
#pragma once

#include <vector>

#include "coordinator/execution/device/cpu/cpu_attention.h"
#include "coordinator/execution/device/cpu/cpu_latent_attention.h"
#include "coordinator/execution/device/cpu/cpu_linear.h"
#include "coordinator/execution/device/cpu/cpu_store.h"
#include "coordinator/execution/device/cpu/vector_ops.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe::execution {

struct CpuParts {
  CpuStore& store;
  ThreadPool& pool;
  const Isa isa;
  const Precision precision;  // of activations in products, in steps that are not exact
  const VectorOps& ops;
  CpuLinear& linear;
  CpuAttention& attention;
  CpuLatentAttention& latent_attention;
  std::vector<float>& gate_logits;           // scratch, [rows, experts]
  std::vector<std::vector<float>>& cos_sin;  // scratch by rope table, [rows][cosines, then sines]
  ExpertBackend* experts = nullptr;          // null if no step has routed experts
};

}  // namespace numoe::execution
