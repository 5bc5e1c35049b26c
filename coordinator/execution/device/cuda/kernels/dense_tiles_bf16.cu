// LaunchGemm for weights in bf16.
#include "coordinator/execution/device/cuda/kernels/dense_tiles.inc"

namespace numoe::execution::cuda {

void LaunchGemmBf16(const GemmArgs& args, Stream stream) {
  LaunchDecoded<Bf16Decoder, Bf16Decoder, 3, 2>(args, stream);
}

}  // namespace numoe::execution::cuda
