#include "coordinator/execution/device/cpu/vector_ops.h"

namespace numoe::execution {

extern const VectorOps kVectorOpsScalar;
extern const VectorOps kVectorOpsAvx2;
extern const VectorOps kVectorOpsAvx512;

const VectorOps& VectorOpsFor(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return kVectorOpsScalar;
    case Isa::kAvx2:
      return kVectorOpsAvx2;
    case Isa::kAvx512:
    case Isa::kAmx:
      return kVectorOpsAvx512;
  }
  return kVectorOpsScalar;
}

}  // namespace numoe::execution
