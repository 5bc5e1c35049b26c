#include "coordinator/execution/sampling/logprobs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/sampling/logit_row.h"

namespace numoe::execution {
namespace {

// The row is read in blocks of this number of logits. Only if the largest logit of a block is among the best
// so far, which is rare, are its logits compared one by one.
constexpr size_t kRankBlock = 256;

// Keeps the largest logits of a row, best first.
class BestOf {
 public:
  explicit BestOf(int most) : most_(static_cast<size_t>(most)) {}

  void Read(absl::Span<const float> logits) {
    for (size_t begin = 0; begin < logits.size() && most_ > 0; begin += kRankBlock) {
      const size_t end = std::min(begin + kRankBlock, logits.size());
      if (count_ == most_ && LargestKey(logits.subspan(begin, end - begin)) <= worst_) continue;
      for (size_t i = begin; i < end; ++i) {
        if (count_ < most_ || OrderKey(logits[i]) > worst_) Insert(OrderKey(logits[i]), i);
      }
    }
  }

  size_t count() const { return count_; }
  TokenId token(size_t i) const { return best_[i].token; }

 private:
  struct Entry {
    int32_t key;
    TokenId token;
  };

  void Insert(int32_t key, size_t token) {
    NUMOE_DCHECK(most_ > 0 && count_ <= most_);
    size_t at = count_ < most_ ? count_++ : most_ - 1;
    for (; at > 0 && best_[at - 1].key < key; --at) best_[at] = best_[at - 1];
    best_[at] = {key, static_cast<TokenId>(token)};
    worst_ = best_[count_ - 1].key;
  }

  const size_t most_;
  size_t count_ = 0;
  int32_t worst_ = 0;  // the lowest key in best_, if it is not empty
  std::array<Entry, kLogprobsMax> best_;
};

}  // namespace

absl::StatusOr<TokenLogprobs> ReadLogprobs(absl::Span<const float> logits, TokenId chosen, int top) {
  NUMOE_CHECK(chosen >= 0 && static_cast<size_t>(chosen) < logits.size()) << "token " << chosen;
  NUMOE_CHECK(top >= 0 && top <= kLogprobsMax) << top << " alternatives";
  ASSIGN_OR_RETURN(const TokenId best, FindBest(logits));
  const float largest = logits[static_cast<size_t>(best)];
  const double log_total = std::log(SumOfExps(logits, largest));
  const auto logprob = [&](TokenId token) {
    const double over = static_cast<double>(logits[static_cast<size_t>(token)]) - largest;
    return TokenLogprob{token, static_cast<float>(over - log_total)};
  };
  TokenLogprobs found{.chosen = logprob(chosen)};
  const int32_t key = OrderKey(logits[static_cast<size_t>(chosen)]);
  int above = 0;
  for (size_t i = 0; i < logits.size(); ++i) above += OrderKey(logits[i]) > key ? 1 : 0;
  found.rank = 1 + above;
  BestOf alternatives(top);
  alternatives.Read(logits);
  for (size_t i = 0; i < alternatives.count(); ++i) found.top.push_back(logprob(alternatives.token(i)));
  NUMOE_DCHECK_EQ(found.top.size(), std::min(static_cast<size_t>(top), logits.size()));
  return found;
}

}  // namespace numoe::execution
