// CudaRuntime: the runtime of a real NVIDIA GPU, over the CUDA runtime and cuBLASLt.
//
// The CUDA runtime is linked statically; it looks for the driver when a device is opened, and cuBLASLt is
// loaded at that time, so a program that contains this starts even if neither is installed.
// https://docs.nvidia.com/cuda/
#pragma once

#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::execution::cuda {

/// Opens device `ordinal`. NOT_FOUND: there is no driver or no such device; FAILED_PRECONDITION: the driver
/// or the device is too old, or there is no cuBLASLt. Each error states what to install.
absl::StatusOr<std::unique_ptr<Runtime>> OpenCudaRuntime(int ordinal);

}  // namespace numoe::execution::cuda
