// CudaParts: what a step on a GPU computes with.
//
// The CUDA device owns all of it (cuda_device.h) and lends it to one step at a time. References and pointers
// outlive the step. One thread, the engine's.
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
  CudaExperts* hot = nullptr;          // null: no experts stay on this card
  ExpertProducts* products = nullptr;  // null: all experts are with the workers
  ExpertWindows* windows = nullptr;    // null: none are fetched

  /// Copies the step's tables to the card.
  void UploadTables() const {
    buffers.Upload(runtime, stream);
    sampling.Upload(runtime, stream);
  }
};

}  // namespace numoe::execution::cuda
