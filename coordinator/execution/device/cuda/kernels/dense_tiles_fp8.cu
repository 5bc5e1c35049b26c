// LaunchGemm for weights in fp8.
#include "coordinator/execution/device/cuda/kernels/dense_tiles.inc"

namespace numoe::execution::cuda {

void LaunchGemmFp8(const GemmArgs& args, Stream stream) {
  LaunchDecoded<Fp8Decoder, Fp8RoundedDecoder, 5, 3>(args, stream);
}

}  // namespace numoe::execution::cuda
