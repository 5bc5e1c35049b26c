// Reads memory as fast as the card can: the yardstick of everything that is bound by bandwidth.
//
// Every 16 bytes are read once, by as many blocks as keep the card busy, with several loads of each thread in
// flight. The exclusive or of all words goes to `sums`, so that no load is left out. Device memory.
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
