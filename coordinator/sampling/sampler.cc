#include "coordinator/sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace numoe {
namespace {

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

double CounterUniform(uint64_t seed, uint64_t counter) {
  return static_cast<double>(Mix(Mix(seed) ^ counter) >> 11) * 0x1p-53;
}

void Sampler::KeepTopK(int k) {
  if (k <= 0 || k >= static_cast<int>(candidates_.size())) return;
  // Equal logits: the lower id is kept, as in greedy.
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  };
  std::nth_element(candidates_.begin(), candidates_.begin() + k, candidates_.end(), better);
  candidates_.resize(k);
}

absl::StatusOr<TokenId> Sampler::Sample(absl::Span<const float> logits, const SamplingChoice& choice) {
  const size_t count = std::min(logits.size(), static_cast<size_t>(vocab_));
  NUMOE_CHECK_GT(count, 0u);
  TokenId best = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(logits[i]))
      return absl::DataLossError("the model produced a logit that is not a number");
    if (logits[i] > logits[best]) best = static_cast<TokenId>(i);
  }
  if (choice.temperature <= 0 || choice.top_k == 1) return best;

  candidates_.clear();
  for (size_t i = 0; i < count; ++i) candidates_.push_back({logits[i], static_cast<TokenId>(i)});
  KeepTopK(choice.top_k);
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  });
  weights_.clear();
  double total = 0;
  for (const Candidate& c : candidates_) {
    weights_.push_back(std::exp((static_cast<double>(c.logit) - candidates_[0].logit) / choice.temperature));
    total += weights_.back();
  }
  // top-p: the shortest prefix whose probability reaches top_p; then min-p: at least min_p of the best one.
  size_t kept = 0;
  double mass = 0;
  while (kept < weights_.size() && (kept == 0 || mass < choice.top_p * total) &&
         weights_[kept] >= choice.min_p) {
    mass += weights_[kept++];
  }
  double left = CounterUniform(choice.seed, static_cast<uint64_t>(choice.position)) * mass;
  for (size_t i = 0; i < kept; ++i) {
    left -= weights_[i];
    if (left < 0) return candidates_[i].token;
  }
  return candidates_[kept - 1].token;
}

}  // namespace numoe
