#include "common/kernels/kernel_table.h"
#include "common/kernels/layout.h"

#define NUMOE_KERNEL_TABLE kKernelsAvx512
#include "common/kernels/matmul.inc"
