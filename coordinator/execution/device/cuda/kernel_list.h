// The list of all kernels that this program can launch, so that all of them are loaded before the first step.
//
// The driver loads a kernel when it is first launched, which may have to wait for the device: for a kernel
// that waits for a worker, or in the middle of a capture. Therefore each kernel that NUMOE_LAUNCH names is in
// a list before main begins, and the runtime loads all of them when it opens a card. A kernel is identified
// as in the CUDA runtime, by its host function. Plain C++; read-only once main runs.
#pragma once

namespace numoe::execution::cuda {

struct ListedKernel;
inline const ListedKernel* listed_kernels = nullptr;

struct ListedKernel {
  explicit ListedKernel(const void* host_function) : function(host_function), next(listed_kernels) {
    listed_kernels = this;
  }
  const void* const function;
  const ListedKernel* const next;  // null for the last one
};

/// Any code that names this variable, even if the code never runs, adds the kernel to the list.
template <auto* kKernel>
inline const ListedKernel kListed{reinterpret_cast<const void*>(kKernel)};

}  // namespace numoe::execution::cuda
