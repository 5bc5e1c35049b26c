#include "common/kernels/kernel_table.h"
#include "common/kernels/layout.h"

#define NUMOE_KERNEL_TABLE kKernelsScalar
#include "common/kernels/matmul.inc"
