// CudaRuntime: the runtime of a real NVIDIA GPU, over the CUDA runtime and cuBLASLt.
//
// The CUDA runtime is linked statically and finds the driver when it is opened, and cuBLASLt is loaded then,
// so a program built with this still starts where neither is installed. https://docs.nvidia.com/cuda/
#pragma once

#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::execution::cuda {

/// Opens device `ordinal`. NOT_FOUND: no driver or no such device; FAILED_PRECONDITION: a driver or a device
/// too old, or no cuBLASLt; each says what to install.
absl::StatusOr<std::unique_ptr<Runtime>> OpenCudaRuntime(int ordinal);

}  // namespace numoe::execution::cuda
