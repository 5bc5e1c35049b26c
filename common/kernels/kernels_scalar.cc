#include "common/kernels/kernel_table.h"
#include "common/kernels/layout.h"
#include "common/kernels/matmul.inc"

namespace numoe {

extern const KernelTable kKernelsScalar;
const KernelTable kKernelsScalar = {MatmulPanels, SwiGluVectors, nullptr, nullptr, nullptr};

}  // namespace numoe
