// Dispatch of attention's kernels.
#include "common/kernels/attention.h"

#include "common/base/check.h"
#include "common/kernels/kernel_table.h"

namespace numoe {
namespace {

bool WellFormed(const CacheRows& in) {
  return in.coded >= 0 && in.coded <= in.width && (in.coded == in.width || in.coded % 64 == 0);
}

}  // namespace

void NarrowRow(Isa isa, const float* in, int coded, uint8_t* codes, uint8_t* exponents) {
  NUMOE_DCHECK_GE(coded, 0);
  TableOf(isa).attention.narrow_row(in, coded, codes, exponents);
}

void WidenRow(Isa isa, const CacheRows& in, int row, uint16_t* out) {
  NUMOE_DCHECK(WellFormed(in) && row < in.count);
  TableOf(isa).attention.widen_row(in, row, out);
}

void PackKeys(Isa isa, const CacheRows& in, std::byte* out) {
  NUMOE_DCHECK(reinterpret_cast<uintptr_t>(out) % 64 == 0);
  NUMOE_CHECK(WellFormed(in)) << in.coded << " of " << in.width;
  TableOf(isa).attention.pack_keys(in, out);
}

void PackValues(Isa isa, const CacheRows& in, std::byte* out) {
  NUMOE_DCHECK(reinterpret_cast<uintptr_t>(out) % 64 == 0);
  NUMOE_CHECK(WellFormed(in)) << in.coded << " of " << in.width;
  TableOf(isa).attention.pack_values(in, out);
}

bool HasFewRows(Isa isa, ActivationFormat format) {
  const AttentionKernels& kernels = TableOf(isa).attention;
  return kernels.score_few_rows != nullptr && kernels.few_rows_format == format;
}

void ScoreFewRows(Isa isa, const FewRowsArgs& args) {
  NUMOE_CHECK(0 < args.rows && args.rows <= kFewRowsMax && WellFormed(args.cache));
  TableOf(isa).attention.score_few_rows(args);
}

void WeighFewRows(Isa isa, const FewRowsArgs& args) {
  NUMOE_CHECK(0 < args.rows && args.rows <= kFewRowsMax && WellFormed(args.cache));
  TableOf(isa).attention.weigh_few_rows(args);
}

SoftmaxPart Softmax(Isa isa, const SoftmaxArgs& args) {
  NUMOE_CHECK(0 < args.valid && args.valid <= args.count);
  NUMOE_DCHECK(args.format == ActivationFormat::kFloat || args.format == ActivationFormat::kFp32 ||
               args.format == ActivationFormat::kBf16);
  return TableOf(isa).attention.softmax(args);
}

void JoinParts(Isa isa, float* out, float keep, const float* part, float add, int n) {
  NUMOE_DCHECK(n >= 0 && out != part);
  TableOf(isa).attention.join_parts(out, keep, part, add, n);
}

}  // namespace numoe
