// The functions that one instruction set provides; one constant table per kernels_<isa>.cc.
//
// Internal to common/kernels: everyone else calls Matmul and SwiGlu (kernels.h), which look the table up.
// Including files must stay free of inline library code: they are compiled for instruction sets the build
// machine may lack.
#pragma once

#include "common/kernels/attention.h"
#include "common/kernels/kernel_types.h"
#include "common/kernels/rounded.h"

namespace numoe {

struct KernelTable {
  void (*matmul)(const MatmulArgs& args);
  void (*swiglu)(float* gate, const float* up, int64_t count);
  // Rounded activations; null where the instruction set has no such kernels.
  bool (*has_rounded)(WeightFormat format, ActivationForm form);
  void (*matmul_rounded)(const RoundedMatmulArgs& args);
  void (*round_row)(ActivationForm form, const float* x, int cols, std::byte* out);
  AttentionKernels attention;
};

const KernelTable& TableOf(Isa isa);

}  // namespace numoe
