// Dispatch of attention's kernels.
#include "common/kernels/attention.h"

#include "common/base/check.h"
#include "common/kernels/kernel_table.h"

namespace numoe {

void PackKeys(Isa isa, const CacheRows& keys, std::byte* out) {
  NUMOE_DCHECK(reinterpret_cast<uintptr_t>(out) % 64 == 0);
  TableOf(isa).attention.pack_keys(keys, out);
}

void PackValues(Isa isa, const CacheRows& values, std::byte* out) {
  NUMOE_DCHECK(reinterpret_cast<uintptr_t>(out) % 64 == 0);
  TableOf(isa).attention.pack_values(values, out);
}

bool HasFewRows(Isa isa) { return TableOf(isa).attention.score_few_rows != nullptr; }

void ScoreFewRows(Isa isa, const FewRowsArgs& args) {
  NUMOE_CHECK(0 < args.rows && args.rows <= kFewRowsMax);
  TableOf(isa).attention.score_few_rows(args);
}

void WeighFewRows(Isa isa, const FewRowsArgs& args) {
  NUMOE_CHECK(0 < args.rows && args.rows <= kFewRowsMax);
  TableOf(isa).attention.weigh_few_rows(args);
}

SoftmaxPart Softmax(Isa isa, const SoftmaxArgs& args) {
  NUMOE_CHECK(0 < args.valid && args.valid <= args.count);
  NUMOE_DCHECK(args.form == ActivationForm::kFloat || args.form == ActivationForm::kBf16);
  return TableOf(isa).attention.softmax(args);
}

void JoinParts(Isa isa, float* out, float keep, const float* part, float add, int n) {
  TableOf(isa).attention.join_parts(out, keep, part, add, n);
}

}  // namespace numoe
