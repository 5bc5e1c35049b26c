#include "coordinator/device/cpu/vector_ops.h"

#define NUMOE_VECTOR_OPS kVectorOpsAvx2
#include "coordinator/device/cpu/vector_ops.inc"
