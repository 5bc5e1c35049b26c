// AMX: tiles for the activation formats that are made for them, and AVX-512's kernels for all others.
#include <immintrin.h>

#include "common/kernels/attention.inc"
#include "common/kernels/attention_avx512.inc"
#include "common/kernels/kernel_table.h"
#include "common/kernels/layout.h"
#include "common/kernels/matmul.inc"
#include "common/kernels/quantised_avx512.inc"
#include "common/kernels/tiles_amx.inc"

namespace numoe {
namespace {

bool HasQuantisedAmx(WeightFormat format, ActivationFormat x_format) {
  return HasQuantised(format, x_format) || TileFormatOf(format).x_format == x_format;
}

void MatmulQuantisedAmx(const QuantisedMatmulArgs& args) {
  if (TileFormatOf(args.weight.format).x_format == args.x_format) return MultiplyTiles(args);
  MatmulQuantisedPanels(args);
}

}  // namespace

extern const KernelTable kKernelsAmx;
const KernelTable kKernelsAmx = {MatmulPanels,
                                 SwiGluVectors,
                                 HasQuantisedAmx,
                                 MatmulQuantisedAmx,
                                 QuantiseRowAvx512,
                                 {NarrowCodes, WidenCachedRow, PackKeysShuffled, PackValuesShuffled,
                                  SoftmaxWide, JoinRows, ScoreFewRowsDirect, WeighFewRowsDirect}};

}  // namespace numoe
