#include "common/kernels/packing.inc"

namespace numoe {

extern const PackingKernels kKernelsPackingScalar;
const PackingKernels kKernelsPackingScalar = {TransposeHalf, PackNibbles, QuantiseInt8, QuantiseInt4};

}  // namespace numoe
