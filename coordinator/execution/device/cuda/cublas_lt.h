// CublasLt: NVIDIA's matrix library, loaded when it is first needed.
//
// One product at a time on a stream, with an algorithm chosen once for each shape by the library's own
// heuristic. Safe inside a stream capture: its workspace is allocated when it is opened.
// https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::execution::cuda {

class CublasLt {
 public:
  /// `workspace` is device memory of kWorkspaceBytes. FAILED_PRECONDITION: the library is not there.
  static absl::StatusOr<std::unique_ptr<CublasLt>> Open(void* workspace);
  virtual ~CublasLt() = default;
  static constexpr size_t kWorkspaceBytes = 32 << 20;  // what NVIDIA advises for Hopper

  /// INTERNAL: the library refused the product; names its shape and the library's code.
  virtual absl::Status Multiply(const MatrixProduct& product, Stream stream) = 0;
};

}  // namespace numoe::execution::cuda
