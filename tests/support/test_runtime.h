// The runtime for tests of the whole CUDA device: a simulated one, or that of a GPU in tests that are built
// for it.
//
// Linked from test_runtime_host.cc or test_runtime_cuda.cc. A test that was built for a GPU ends on a machine
// without one, and says why. A process has one runtime at a time.
#pragma once

#include <memory>

#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe {

std::unique_ptr<execution::cuda::Runtime> NewTestRuntime();

}  // namespace numoe
