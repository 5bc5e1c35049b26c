// The operations of one step as launches on a GPU: they translate handles to addresses and choose a kernel
// for each shape.
//
// They are enqueued on the step's stream; a call returns before the work has run. Products and attention have
// separate classes (cuda_products.h, cuda_attention.h). One thread, the engine's.
#pragma once

#include <memory>

#include "coordinator/execution/device/cuda/cuda_attention.h"
#include "coordinator/execution/device/cuda/step_memory.h"
#include "coordinator/execution/device/operations.h"

namespace numoe::execution::cuda {

/// Enqueues the work that all layers share: cosines and sines, and the plan of attention. `memory` must
/// outlive the operations. REQUIRES: the copy of the step's tables to the card is enqueued.
std::unique_ptr<Operations> MakeCudaOperations(const StepMemory& memory, const AttendKernels& kernels);

}  // namespace numoe::execution::cuda
