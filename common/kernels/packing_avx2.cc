#include "common/kernels/packing.inc"

namespace numoe {

extern const PackingKernels kKernelsPackingAvx2;
const PackingKernels kKernelsPackingAvx2 = {TransposeHalf, PackNibbles, QuantiseInt8, QuantiseInt4};

}  // namespace numoe
