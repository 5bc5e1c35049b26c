// The operations of one step as launches on a GPU: from handles to addresses, and which kernel for which
// shape.
//
// Enqueued on the step's stream; nothing has run when a call returns. Products and attention have classes of
// their own (cuda_products.h, cuda_attention.h). One thread, the engine's.
#pragma once

#include <memory>

#include "coordinator/execution/device/cuda/cuda_attention.h"
#include "coordinator/execution/device/cuda/step_memory.h"
#include "coordinator/execution/device/operations.h"

namespace numoe::execution::cuda {

/// Enqueues what all layers share: cosines and sines, and the plan of attention. `memory` outlives the
/// operations; the step's tables are on their way to the card.
std::unique_ptr<Operations> MakeCudaOperations(const StepMemory& memory, const AttendKernels& kernels);

}  // namespace numoe::execution::cuda
