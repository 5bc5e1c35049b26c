#include "common/base/check.h"
#include "coordinator/execution/device/cuda/cuda_runtime.h"
#include "tests/support/test_runtime.h"

namespace numoe {

std::unique_ptr<execution::cuda::Runtime> NewTestRuntime() {
  auto runtime = execution::cuda::OpenCudaRuntime(0);
  NUMOE_CHECK(runtime.ok()) << std::string(runtime.status().message());
  return *std::move(runtime);
}

}  // namespace numoe
