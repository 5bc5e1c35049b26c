#include "coordinator/execution/device/cpu/vector_ops.h"

#define NUMOE_VECTOR_OPS kVectorOpsAvx2
#include "coordinator/execution/device/cpu/vector_ops.inc"
