// CudaParts: the parts of the CUDA device that a step uses.
//
// The CUDA device (cuda_device.h) owns all of them and lends them to one step at a time. References and
// pointers outlive the step. One thread, the engine's.
#pragma once

#include "coordinator/execution/device/cuda/cuda_attention.h"
#include "coordinator/execution/device/cuda/cuda_experts.h"
#include "coordinator/execution/device/cuda/cuda_store.h"
#include "coordinator/execution/device/cuda/direct_exchange.h"
#include "coordinator/execution/device/cuda/expert_products.h"
#include "coordinator/execution/device/cuda/expert_windows.h"
#include "coordinator/execution/device/cuda/graph_cache.h"
#include "coordinator/execution/device/cuda/logit_reader.h"
#include "coordinator/execution/device/cuda/sampling_tables.h"
#include "coordinator/execution/device/cuda/staged_exchange.h"

namespace numoe::execution::cuda {

struct CudaParts {
  const CudaStore& store;
  StepBuffers& buffers;
  Runtime& runtime;
  const Stream stream;
  const AttendKernels kernels;
  SamplingTables& sampling;
  LogitReader& logits;
  StagedExchange& staged;
  DirectExchange& direct;
  GraphCache& graphs;
  CudaExperts* hot = nullptr;          // null if this card holds no hot experts
  ExpertProducts* products = nullptr;  // null if the workers compute all routed experts
  ExpertWindows* windows = nullptr;    // null if no experts are fetched

  /// Enqueues the copy of the step's tables to the card.
  void UploadTables() const {
    buffers.Upload(runtime, stream);
    sampling.Upload(runtime, stream);
  }
};

}  // namespace numoe::execution::cuda
