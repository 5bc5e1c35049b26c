#include "common/transport/layer_call.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe {

// Takes experts [first, first + count) of every token.
void SplitCall::Take(const LayerCallView& call, int first, int count, Part& part) {
  const auto tokens = static_cast<size_t>(call.tokens), width = static_cast<size_t>(count);
  const auto places = static_cast<size_t>(call.experts_per_token);
  NUMOE_DCHECK(first >= 0 && count > 0 && first + count <= call.experts_per_token);
  NUMOE_DCHECK_EQ(call.experts.size(), tokens * places);
  NUMOE_DCHECK_EQ(call.weights.size(), tokens * places);
  part.experts.resize(tokens * width);
  part.weights.resize(tokens * width);
  for (size_t t = 0; t < tokens; ++t) {
    const size_t from = t * places + static_cast<size_t>(first);
    std::copy_n(&call.experts[from], width, &part.experts[t * width]);
    std::copy_n(&call.weights[from], width, &part.weights[t * width]);
  }
  part.view = call;
  part.view.experts_per_token = count;
  part.view.deferred_experts = 0;
  part.view.experts = part.experts;
  part.view.weights = part.weights;
}

void SplitCall::Split(const LayerCallView& call) {
  NUMOE_CHECK(call.deferred_experts >= 0 && call.deferred_experts < call.experts_per_token)
      << call.deferred_experts << " of " << call.experts_per_token;
  Part& immediate = parts_[static_cast<size_t>(ReplyPart::kImmediate)];
  Part& deferred = parts_[static_cast<size_t>(ReplyPart::kDeferred)];
  if (call.deferred_experts == 0) {
    immediate.view = call;
    deferred.view = {};
    return;
  }
  const int first_deferred = call.experts_per_token - call.deferred_experts;
  Take(call, 0, first_deferred, immediate);
  Take(call, first_deferred, call.deferred_experts, deferred);
}

}  // namespace numoe
