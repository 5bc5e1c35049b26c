#include "coordinator/execution/device/cpu/vector_ops.h"

#define NUMOE_VECTOR_OPS kVectorOpsScalar
#include "coordinator/execution/device/cpu/vector_ops.inc"
