// Reads memory as fast as the card can, to measure the limit of everything that memory bandwidth limits.
//
// The kernel reads every 16 bytes once, with enough blocks to keep the card busy and several loads of each
// thread in flight. It writes the exclusive or of all words to `sums`, so that the compiler keeps every load.
// All pointers are to device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::clients {

inline constexpr int kReadThreads = 512;

struct ReadMemoryArgs {
  const void* from = nullptr;  // 16-byte aligned
  size_t bytes = 0;            // a multiple of 16
  int blocks = 0;
  uint32_t* sums = nullptr;  // out [blocks, kReadThreads]
};
void LaunchReadMemory(const ReadMemoryArgs& args, execution::cuda::Stream stream);

}  // namespace numoe::clients
