#include "common/kernels/attention.inc"
#include "common/kernels/attention_avx2.inc"
#include "common/kernels/attention_softmax.inc"
#include "common/kernels/kernel_table.h"
#include "common/kernels/layout.h"
#include "common/kernels/matmul.inc"
#include "common/kernels/quantised_avx2.inc"

namespace numoe {

extern const KernelTable kKernelsAvx2;
const KernelTable kKernelsAvx2 = {
    MatmulPanels,
    SwiGluVectors,
    HasQuantised,
    MatmulQuantisedPanels,
    QuantiseRowAvx2,
    {NarrowCodes, WidenCachedRow, PackKeysShuffled, PackValuesShuffled, SoftmaxRow, JoinRows,
     ScoreFewRowsDirect, WeighFewRowsDirect, ActivationFormat::kFp32}};

}  // namespace numoe
