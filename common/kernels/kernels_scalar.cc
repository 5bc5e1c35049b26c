#include "common/kernels/attention.inc"
#include "common/kernels/attention_softmax.inc"
#include "common/kernels/attention_words.inc"
#include "common/kernels/kernel_table.h"
#include "common/kernels/layout.h"
#include "common/kernels/matmul.inc"

namespace numoe {

extern const KernelTable kKernelsScalar;
const KernelTable kKernelsScalar = {
    MatmulPanels,
    SwiGluVectors,
    nullptr,
    nullptr,
    nullptr,
    {NarrowCodes, WidenCachedRow, PackKeysWords, PackValuesWords, SoftmaxRow, JoinRows, nullptr, nullptr}};

}  // namespace numoe
