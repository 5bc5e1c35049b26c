#include "expert_worker/tools/moe_routing.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::worker {

MoeRouter::MoeRouter(const MoeRouting& routing)
    : routing_(routing), last_(static_cast<size_t>(routing.experts)) {
  NUMOE_CHECK(routing.held > 0 && routing.experts % routing.held == 0 &&
              routing.per_token <= routing.experts);
  std::vector<double> popularity;
  for (int e = 0; e < routing.experts; ++e) popularity.push_back(1.0 / (e + 1));
  by_popularity_ = std::discrete_distribution<ExpertId>(popularity.begin(), popularity.end());
}

RoutedCall MoeRouter::Make(int tokens) {
  NUMOE_CHECK_GT(tokens, 0);
  RoutedCall call;
  const bool cold = !routing_.skewed && 2 * tokens * routing_.per_token < routing_.experts;
  for (int t = 0; t < tokens; ++t) {
    std::vector<ExpertId> chosen;
    while (static_cast<int>(chosen.size()) < routing_.per_token) {
      const ExpertId expert = Next(cold);
      if (std::find(chosen.begin(), chosen.end(), expert) == chosen.end()) chosen.push_back(expert);
    }
    call.experts.insert(call.experts.end(), chosen.begin(), chosen.end());
  }
  call.weights.assign(call.experts.size(), 1.0f / static_cast<float>(routing_.per_token));
  std::fill(last_.begin(), last_.end(), false);
  for (const ExpertId expert : call.experts) {
    last_[static_cast<size_t>(expert)] = true;
    call.rows += routing_.Holds(expert) ? 1 : 0;
  }
  for (ExpertId e = 0; e < routing_.experts; ++e)
    call.distinct += routing_.Holds(e) && last_[static_cast<size_t>(e)] ? 1 : 0;
  NUMOE_CHECK(call.distinct <= routing_.held && call.distinct <= call.rows);
  return call;
}

ExpertId MoeRouter::Next(bool cold) {
  if (routing_.skewed) return by_popularity_(random_);
  while (true) {
    const auto expert = static_cast<ExpertId>(random_() % static_cast<unsigned>(routing_.experts));
    if (!cold || !last_[static_cast<size_t>(expert)]) return expert;
  }
}

}  // namespace numoe::worker
