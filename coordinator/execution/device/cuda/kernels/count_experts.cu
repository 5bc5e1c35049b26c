#include "coordinator/execution/device/cuda/kernels/count_experts.h"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) CountExperts(CountExpertsArgs args) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= args.entries) return;
  const int32_t expert = args.experts[i];
  if (expert >= 0) atomicAdd(&args.counts[expert], 1u);
}

}  // namespace

void LaunchCountExperts(const CountExpertsArgs& args, Stream stream) {
  const int blocks = (args.entries + kThreads - 1) / kThreads;
  NUMOE_LAUNCH((CountExperts),
               (LaunchShape{.blocks = dim3(static_cast<unsigned>(blocks)), .threads = dim3(kThreads)}),
               stream, args);
}

}  // namespace numoe::execution::cuda
