// Every kernel that this program can launch, so that all of them are loaded before the first step.
//
// The driver loads a kernel when it is first launched, which may wait for the device: behind a kernel that
// waits for a worker, or in the middle of a capture. So each kernel that NUMOE_LAUNCH names stands in a list
// when main begins, and the runtime asks for all of them when it opens a card. Kernels are known as the CUDA
// runtime knows them, by their host functions. Plain C++; read-only once main runs.
#pragma once

namespace numoe::execution::cuda {

struct ListedKernel;
inline const ListedKernel* listed_kernels = nullptr;

struct ListedKernel {
  explicit ListedKernel(const void* host_function) : function(host_function), next(listed_kernels) {
    listed_kernels = this;
  }
  const void* const function;
  const ListedKernel* const next;  // null: the last one
};

/// Whoever names it, in code that need not run, has the kernel in the list.
template <auto* kKernel>
inline const ListedKernel kListed{reinterpret_cast<const void*>(kKernel)};

}  // namespace numoe::execution::cuda
