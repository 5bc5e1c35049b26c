#include "coordinator/clients/bench/gpu/read_memory.h"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::clients {
namespace {

constexpr int kInFlight =
    8;  // loads per thread: 2 blocks of 512 threads have 128 KB in flight on a multiprocessor

__global__ void __launch_bounds__(kReadThreads) ReadMemory(ReadMemoryArgs args) {
  const auto* from = static_cast<const uint4*>(args.from);
  const auto pieces = static_cast<int64_t>(args.bytes / sizeof(uint4));
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kReadThreads + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kReadThreads;
  uint32_t sum = 0;
  for (int64_t first = thread; first < pieces; first += threads * kInFlight) {
    uint4 words[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t at = first + i * threads;
      words[i] = at < pieces ? execution::cuda::LoadStreaming(from + at) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) sum ^= words[i].x ^ words[i].y ^ words[i].z ^ words[i].w;
  }
  args.sums[thread] = sum;
}

}  // namespace

void LaunchReadMemory(const ReadMemoryArgs& args, execution::cuda::Stream stream) {
  NUMOE_LAUNCH((ReadMemory),
               (execution::cuda::LaunchShape{.blocks = dim3(static_cast<unsigned>(args.blocks)),
                                             .threads = dim3(kReadThreads)}),
               stream, args);
}

}  // namespace numoe::clients
