#include "coordinator/execution/sampling/logit_row.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "common/base/check.h"

namespace numoe::execution {
namespace {

// FindBest searches the row in blocks of this number of logits.
constexpr size_t kScanBlock = 1024;
constexpr int32_t kExponentBits = 0x7f800000;

}  // namespace

int32_t LargestKey(absl::Span<const float> logits) {
  int32_t top = std::numeric_limits<int32_t>::min();
  for (const float logit : logits) {
    const int32_t key = OrderKey(logit);
    top = key > top ? key : top;
  }
  return top;
}

absl::Status NotANumber() { return absl::DataLossError("the model produced a logit that is not a number"); }

absl::StatusOr<TokenId> FindBest(absl::Span<const float> logits) {
  NUMOE_CHECK(!logits.empty());
  size_t best_block = 0;
  int32_t best = std::numeric_limits<int32_t>::min();
  int bad = 0;
  for (size_t block = 0; block < logits.size(); block += kScanBlock) {
    const size_t end = std::min(block + kScanBlock, logits.size());
    int32_t top = std::numeric_limits<int32_t>::min();
    for (size_t i = block; i < end; ++i) {
      const int32_t key = OrderKey(logits[i]);
      top = key > top ? key : top;
      bad |= (absl::bit_cast<int32_t>(logits[i]) & kExponentBits) == kExponentBits ? 1 : 0;
    }
    if (top > best) {
      best = top;
      best_block = block;
    }
  }
  if (bad != 0) return NotANumber();
  while (OrderKey(logits[best_block]) != best) {
    ++best_block;
    NUMOE_DCHECK_LT(best_block, logits.size());
  }
  return static_cast<TokenId>(best_block);
}

double SumOfExps(absl::Span<const float> logits, float best) {
  double sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= logits.size(); i += 8) {
    float weights[8];
    for (size_t j = 0; j < 8; ++j) weights[j] = ExpOfNegative(logits[i + j] - best);
    for (size_t j = 0; j < 8; ++j) sums[j] += weights[j];
  }
  for (; i < logits.size(); ++i) sums[0] += ExpOfNegative(logits[i] - best);
  double total = 0;
  for (const double sum : sums) total += sum;
  NUMOE_DCHECK(!(total < 0)) << total;
  return total;
}

}  // namespace numoe::execution
