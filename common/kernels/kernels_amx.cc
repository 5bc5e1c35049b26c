// AMX: tiles for the forms made for them, AVX-512's kernels for all others.
#include <immintrin.h>

#include "common/kernels/attention.inc"
#include "common/kernels/attention_avx512.inc"
#include "common/kernels/kernel_table.h"
#include "common/kernels/layout.h"
#include "common/kernels/matmul.inc"
#include "common/kernels/rounded_avx512.inc"
#include "common/kernels/tiles_amx.inc"

namespace numoe {
namespace {

bool HasRoundedAmx(WeightFormat format, ActivationForm form) {
  return HasRounded(format, form) || TileFormatOf(format).form == form;
}

void MatmulRoundedAmx(const RoundedMatmulArgs& args) {
  if (TileFormatOf(args.weight.format).form == args.form) return MultiplyTiles(args);
  MatmulRoundedPanels(args);
}

}  // namespace

extern const KernelTable kKernelsAmx;
const KernelTable kKernelsAmx = {MatmulPanels,
                                 SwiGluVectors,
                                 HasRoundedAmx,
                                 MatmulRoundedAmx,
                                 RoundRowAvx512,
                                 {NarrowCodes, WidenCachedRow, PackKeysShuffled, PackValuesShuffled,
                                  SoftmaxWide, JoinRows, ScoreFewRowsDirect, WeighFewRowsDirect}};

}  // namespace numoe
