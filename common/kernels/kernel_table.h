// The functions that one instruction set provides; one constant table per kernels_<isa>.cc.
//
// Internal to common/kernels: all other code calls Matmul and SwiGlu (kernels.h), which look the table up.
// Including files must stay free of inline library code: they are compiled for instruction sets that the
// build machine may lack.
#pragma once

#include "common/kernels/attention.h"
#include "common/kernels/kernel_types.h"
#include "common/kernels/quantised.h"

namespace numoe {

struct KernelTable {
  void (*matmul)(const MatmulArgs& args);
  void (*swiglu)(float* gate, const float* up, int64_t count);
  // For quantised activations; null if the instruction set has no such kernels.
  bool (*has_quantised)(WeightFormat format, ActivationFormat x_format);
  void (*matmul_quantised)(const QuantisedMatmulArgs& args);
  void (*quantise_row)(ActivationFormat x_format, const float* x, int cols, std::byte* out);
  AttentionKernels attention;
};

const KernelTable& TableOf(Isa isa);

}  // namespace numoe
