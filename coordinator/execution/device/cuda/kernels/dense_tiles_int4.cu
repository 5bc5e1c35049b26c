// LaunchGemm for weights in int4.
#include "coordinator/execution/device/cuda/kernels/dense_tiles.inc"

namespace numoe::execution::cuda {

void LaunchGemmInt4(const GemmArgs& args, Stream stream) {
  LaunchDecoded<Int4Decoder, Int4RoundedDecoder, 7, 3>(args, stream);
}

}  // namespace numoe::execution::cuda
