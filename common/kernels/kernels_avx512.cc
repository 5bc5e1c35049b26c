#include "common/kernels/attention.inc"
#include "common/kernels/attention_avx512.inc"
#include "common/kernels/kernel_table.h"
#include "common/kernels/layout.h"
#include "common/kernels/matmul.inc"
#include "common/kernels/quantised_avx512.inc"

namespace numoe {

extern const KernelTable kKernelsAvx512;
const KernelTable kKernelsAvx512 = {MatmulPanels,
                                    SwiGluVectors,
                                    HasQuantised,
                                    MatmulQuantisedPanels,
                                    QuantiseRowAvx512,
                                    {NarrowCodes, WidenCachedRow, PackKeysShuffled, PackValuesShuffled,
                                     SoftmaxWide, JoinRows, ScoreFewRowsDirect, WeighFewRowsDirect}};

}  // namespace numoe
