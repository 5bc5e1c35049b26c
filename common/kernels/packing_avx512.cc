#include "common/kernels/packing.inc"

namespace numoe {

extern const PackingKernels kKernelsPackingAvx512;
const PackingKernels kKernelsPackingAvx512 = {TransposeHalf, PackNibbles, QuantiseInt8, QuantiseInt4};

}  // namespace numoe
