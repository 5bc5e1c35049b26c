// The runtime that tests of the whole CUDA device run on: simulated, or a GPU's where they are built for one.
//
// Linked from test_runtime_host.cc or test_runtime_cuda.cc. A machine without a GPU stops a test that was
// built for one, with the reason. One at a time in a process.
#pragma once

#include <memory>

#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe {

std::unique_ptr<execution::cuda::Runtime> NewTestRuntime();

}  // namespace numoe
