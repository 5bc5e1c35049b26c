// CublasLt: NVIDIA's matrix library, loaded when it is first needed.
//
// Computes one product at a time on a stream, with an algorithm that the library's heuristic chooses once for
// each shape. It can be used in a stream capture, because its workspace is allocated when it is opened.
// https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::execution::cuda {

class CublasLt {
 public:
  /// `workspace` is device memory of kWorkspaceBytes. FAILED_PRECONDITION: the library was not found.
  static absl::StatusOr<std::unique_ptr<CublasLt>> Open(void* workspace);
  virtual ~CublasLt() = default;
  static constexpr size_t kWorkspaceBytes = 32 << 20;  // what NVIDIA advises for Hopper

  /// INTERNAL: the library rejected the product; the message states its shape and the library's code.
  virtual absl::Status Multiply(const MatrixProduct& product, Stream stream) = 0;
};

}  // namespace numoe::execution::cuda
