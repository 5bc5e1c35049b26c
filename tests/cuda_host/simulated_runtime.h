// SimulatedRuntime: the CUDA device's runtime without a GPU. Kernels run on the CPU through the host
// execution model (tests/cuda_host), and nothing runs before somebody waits for it.
//
// What is enqueued stays in its stream until Synchronize, so a host buffer that is changed too early, or a
// result that is read too early, shows as it would on a device. Between streams there is no order but that of
// events, and both extremes of what a device may do are there: streams that nobody waits for run as late as
// they may (what is read without waiting is not there yet), or as early (what is written without waiting
// destroys what is still being read). A captured graph is the list of what was
// enqueued. Memory of "the device" is ordinary memory filled with a pattern that is NaN in every float type.
// Allocations beyond `memory_bytes` fail as on a card of that size, and pinned memory is as little as
// `pinned_bytes`. One at a time in a process: the launches' sink is global.
#pragma once

#include <memory>

#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::execution::cuda {

struct SimulatedFacts {
  uint64_t memory_bytes = uint64_t{1} << 30;
  uint64_t pinned_bytes = uint64_t{1} << 30;  // of the host
  int multiprocessors = 4;
  int compute_major = 8;
  int64_t shared_bytes_max = 163 << 10;  // of a block: sm_80's
  bool others_first = false;             // of several streams those run early that are not waited for
};

std::unique_ptr<Runtime> NewSimulatedRuntime(const SimulatedFacts& facts = {});

}  // namespace numoe::execution::cuda
