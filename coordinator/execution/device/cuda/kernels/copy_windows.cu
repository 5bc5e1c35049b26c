#include "coordinator/execution/device/cuda/kernels/copy_windows.h"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLane = 8;  // values in 16 bytes

__global__ void __launch_bounds__(kThreads) CopyWindows(CopyWindowsArgs args) {
  const int lanes = args.width / kLane;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= static_cast<int64_t>(args.rows) * args.in.heads * lanes) return;
  const int lane = static_cast<int>(i % lanes);
  const int head = static_cast<int>(i / lanes % args.in.heads);
  const int64_t row = i / lanes / args.in.heads;
  const Bf16* from = args.in.data + row * args.in.row_stride + head * args.in.stride + args.in.offset;
  Bf16* to = args.out.data + row * args.out.row_stride + head * args.out.stride + args.out.offset;
  reinterpret_cast<uint4*>(to)[lane] = reinterpret_cast<const uint4*>(from)[lane];
}

}  // namespace

void LaunchCopyWindows(const CopyWindowsArgs& args, Stream stream) {
  const int64_t pieces = static_cast<int64_t>(args.rows) * args.in.heads * (args.width / kLane);
  const LaunchShape shape{.blocks = dim3(static_cast<unsigned>((pieces + kThreads - 1) / kThreads)),
                          .threads = dim3(kThreads)};
  NUMOE_LAUNCH((CopyWindows), shape, stream, args);
}

}  // namespace numoe::execution::cuda
