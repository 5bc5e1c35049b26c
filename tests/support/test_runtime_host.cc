#include "tests/cuda_host/simulated_runtime.h"
#include "tests/support/test_runtime.h"

namespace numoe {

std::unique_ptr<execution::cuda::Runtime> NewTestRuntime() { return execution::cuda::NewSimulatedRuntime(); }

}  // namespace numoe
