#include "tests/cuda_host/simulated_runtime.h"
#include "tests/support/test_runtime.h"

namespace numoe {

std::unique_ptr<cuda::Runtime> NewTestRuntime() { return cuda::NewSimulatedRuntime(); }

}  // namespace numoe
