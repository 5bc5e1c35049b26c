// StepMemory: the addresses of a step's tensors, tables and caches in the GPU's memory.
//
// Made for one step; owns nothing. One thread, the engine's.
#pragma once

#include <type_traits>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/cuda_store.h"
#include "coordinator/execution/device/cuda/kernels/elementwise.h"
#include "coordinator/execution/device/cuda/step_buffers.h"
#include "coordinator/execution/device/cuda/step_frame.h"

namespace numoe::execution::cuda {

/// All references outlive the step.
struct StepMemory {
  const CudaStore& store;
  const StepBuffers& buffers;
  const StepFrame& frame;
  Runtime& runtime;
  const Stream stream;

  bool IsActivation(Tensor tensor) const { return store.tensor(tensor).use == TensorUse::kActivation; }
  /// The tensor, beginning with row `first`. Activations are Bf16, residuals and logits float.
  template <typename T>
  T* Data(int first, Tensor tensor) const {
    const CudaStore::StoredTensor& stored = store.tensor(tensor);
    NUMOE_CHECK_EQ(!IsActivation(tensor), (std::is_same_v<std::remove_const_t<T>, float>));
    NUMOE_DCHECK(first >= 0 && first < stored.rows);
    return reinterpret_cast<T*>(stored.memory->device()) + int64_t{first} * tensor.cols;
  }
  template <typename T>
  Windows<T> View(Rows rows, const HeadView& view) const {
    return {.data = Data<T>(rows.first, view.tensor),
            .row_stride = view.tensor.cols,
            .heads = view.heads,
            .stride = view.stride,
            .offset = view.offset};
  }
  StepTables Tables(Rows rows) const { return buffers.tables(rows.first); }
};

}  // namespace numoe::execution::cuda
