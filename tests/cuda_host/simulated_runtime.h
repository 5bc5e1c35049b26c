// SimulatedRuntime: the CUDA device's runtime without a GPU. Kernels run on the CPU in the host's execution
// model (tests/cuda_host), and no work runs before it is waited for.
//
// Enqueued work stays in its stream until Synchronize, so a host buffer that is changed too early, or a
// result that is read too early, gives wrong results as on a device. Streams are ordered only by events, and
// both extremes of a device's behaviour are available: streams that are not waited for run as late as
// possible (a result that is read without waiting is missing), or as early as possible (a write without
// waiting destroys data that is still being read). A captured graph is the list of the enqueued work. Memory
// of "the device" is ordinary memory filled with a pattern that is NaN in every float type. Allocations
// beyond `memory_bytes` fail as on a card of that size, and at most `pinned_bytes` can be pinned. A process
// may have only one at a time, because the sink of launches is global.
#pragma once

#include <memory>

#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::execution::cuda {

struct SimulatedFacts {
  uint64_t memory_bytes = uint64_t{1} << 30;
  uint64_t pinned_bytes = uint64_t{1} << 30;  // of the host
  int multiprocessors = 4;
  int compute_major = 8;
  int64_t shared_bytes_max = 163 << 10;  // per block; that of sm_80
  bool others_first = false;             // whether streams that are not waited for run as early as possible
};

std::unique_ptr<Runtime> NewSimulatedRuntime(const SimulatedFacts& facts = {});

}  // namespace numoe::execution::cuda
