#include "coordinator/execution/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/numeric/bits.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/sampling/logit_row.h"

namespace numoe::execution {
namespace {

// Candidates are sorted level by level. The first level contains weights down to exp(-kLevelDepth) of the
// best one, the next down to the square of that, and the last all others. A token that is drawn from a
// typical distribution is in the first two levels.
constexpr double kLevelDepth = 7.0;
constexpr int kLevels = 14;

constexpr size_t kMaskBits = 64;  // tokens in a word of a mask

bool IsAllowed(absl::Span<const uint64_t> mask, TokenId token) {
  const auto bit = static_cast<size_t>(token);
  return bit / kMaskBits < mask.size() && (mask[bit / kMaskBits] >> bit % kMaskBits & 1) != 0;
}

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

absl::Status NothingAllowed(bool masked) {
  return absl::InternalError(masked ? "the constraint allows no token of the vocabulary"
                                    : "no token is allowed: min_tokens forbids all that are left");
}

double CounterUniform(uint64_t seed, uint64_t counter) {
  return static_cast<double>(Mix(Mix(seed) ^ counter) >> 11) * 0x1p-53;
}

double Sampler::Weigh(absl::Span<const float> logits, float best, double temperature) {
  weights_.resize(logits.size());
  const float inverse = static_cast<float>(1 / temperature);
  for (size_t i = 0; i < logits.size(); ++i) weights_[i] = ExpOfNegative((logits[i] - best) * inverse);
  double sums[8] = {};
  for (size_t i = 0; i < logits.size(); ++i) sums[i % 8] += weights_[i];
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// Appends the next level's candidates, best first. Returns false if there are no more levels.
bool Sampler::SortNextLevel(absl::Span<const float> logits, float best, double temperature) {
  if (level_ == kLevels) return false;
  const auto edge = [&](int level) {
    return level == 0         ? std::numeric_limits<float>::infinity()
           : level == kLevels ? std::nextafter(kForbiddenLogit, 0.0f)
                              : static_cast<float>(best - kLevelDepth * temperature * level);
  };
  const float ceiling = edge(level_);
  const float floor = edge(++level_);
  NUMOE_DCHECK_LT(floor, ceiling);
  const auto first = static_cast<std::ptrdiff_t>(candidates_.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= floor && logits[i] < ceiling)
      candidates_.push_back({logits[i], weights_[i], static_cast<TokenId>(i)});
  }
  // If logits are equal, the lower id comes first, as with temperature 0.
  std::sort(candidates_.begin() + first, candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  });
  return true;
}

absl::StatusOr<TokenId> Sampler::Sample(absl::Span<const float> logits, const SamplingChoice& choice) {
  logits = logits.subspan(0, std::min(logits.size(), static_cast<size_t>(vocab_)));
  NUMOE_CHECK(!logits.empty());
  const absl::StatusOr<TokenId> token = SampleAllowed(logits, choice, /*forbid=*/true);
  if (!absl::IsInternal(token.status()) || choice.allowed.empty() || choice.rules == nullptr ||
      !choice.rules->Forbids())
    return token;
  return SampleAllowed(logits, choice, /*forbid=*/false);
}

absl::StatusOr<TokenId> Sampler::SampleAllowed(absl::Span<const float> logits, const SamplingChoice& choice,
                                               bool forbid) {
  if (choice.allowed.empty()) {
    if (choice.rules == nullptr) return SampleAmong(logits, choice);
    shaped_.assign(logits.begin(), logits.end());
    choice.rules->Apply(absl::MakeSpan(shaped_), forbid);
    return SampleAmong(shaped_, choice);
  }
  size_t allowed = 0;
  for (const uint64_t word : choice.allowed) {
    if (word != 0)
      allowed += static_cast<size_t>(absl::popcount(word));  // most words of a typical mask are 0
  }
  return 3 * allowed <= 2 * logits.size() ? SampleOfFew(logits, choice, forbid)
                                          : SampleOfMany(logits, choice, forbid);
}

// Draws from a copy of the allowed tokens' logits.
absl::StatusOr<TokenId> Sampler::SampleOfFew(absl::Span<const float> logits, const SamplingChoice& choice,
                                             bool forbid) {
  allowed_.clear();
  shaped_.clear();
  for (size_t word = 0; word < choice.allowed.size(); ++word) {
    for (uint64_t bits = choice.allowed[word]; bits != 0; bits &= bits - 1) {
      const size_t token = word * kMaskBits + static_cast<size_t>(absl::countr_zero(bits));
      if (token >= logits.size()) break;
      allowed_.push_back(static_cast<TokenId>(token));
      shaped_.push_back(logits[token]);
    }
  }
  if (allowed_.empty()) return NothingAllowed(/*masked=*/true);
  NUMOE_DCHECK_EQ(allowed_.size(), shaped_.size());
  if (choice.rules != nullptr) {
    const auto logit_of = [&](TokenId token) -> float* {
      if (!IsAllowed(choice.allowed, token)) return nullptr;
      const auto found = std::lower_bound(allowed_.begin(), allowed_.end(), token);
      NUMOE_DCHECK(found != allowed_.end() && *found == token);
      return &shaped_[static_cast<size_t>(found - allowed_.begin())];
    };
    choice.rules->Apply(logit_of, forbid);
  }
  ASSIGN_OR_RETURN(const TokenId index, SampleAmong(shaped_, choice));
  return allowed_[static_cast<size_t>(index)];
}

// Draws from a copy of the row in which the other tokens have kForbiddenLogit. Most words of a mask with many
// tokens are full, and copying its tokens' logits one by one would take longer than everything else.
absl::StatusOr<TokenId> Sampler::SampleOfMany(absl::Span<const float> logits, const SamplingChoice& choice,
                                              bool forbid) {
  shaped_.assign(logits.begin(), logits.end());
  for (size_t begin = 0; begin < logits.size(); begin += kMaskBits) {
    const size_t word = begin / kMaskBits;
    uint64_t others = word < choice.allowed.size() ? ~choice.allowed[word] : ~uint64_t{0};
    if (others == 0) continue;
    const size_t count = std::min(kMaskBits, logits.size() - begin);
    if (count < kMaskBits) others &= (uint64_t{1} << count) - 1;
    if (others == ~uint64_t{0}) {
      std::fill_n(&shaped_[begin], count, kForbiddenLogit);
      continue;
    }
    for (; others != 0; others &= others - 1)
      shaped_[begin + static_cast<size_t>(absl::countr_zero(others))] = kForbiddenLogit;
  }
  if (choice.rules != nullptr) {
    const auto logit_of = [&](TokenId token) {
      return IsAllowed(choice.allowed, token) ? &shaped_[static_cast<size_t>(token)] : nullptr;
    };
    choice.rules->Apply(logit_of, forbid);
  }
  return SampleAmong(shaped_, choice);
}

absl::StatusOr<TokenId> Sampler::SampleAmong(absl::Span<const float> logits, const SamplingChoice& choice) {
  ASSIGN_OR_RETURN(const TokenId best_token, FindBest(logits));
  if (logits[static_cast<size_t>(best_token)] == kForbiddenLogit) return NothingAllowed(/*masked=*/false);
  if (choice.temperature <= 0 || choice.top_k == 1) return best_token;

  const float best = logits[static_cast<size_t>(best_token)];
  double total = Weigh(logits, best, choice.temperature);
  candidates_.clear();
  level_ = 0;
  const auto has = [&](size_t i) {
    while (i >= candidates_.size()) {
      if (!SortNextLevel(logits, best, choice.temperature)) return false;
    }
    return true;
  };
  size_t kept = logits.size();
  if (choice.top_k > 0 && static_cast<size_t>(choice.top_k) < kept) {
    kept = static_cast<size_t>(choice.top_k);
    total = 0;
    for (size_t i = 0; i < kept && has(i); ++i) total += candidates_[i].weight;
  }
  // top-p keeps the shortest prefix whose probability reaches top_p; then min-p keeps the tokens with at
  // least min_p times the best one's probability.
  double mass = total;
  if (choice.top_p < 1 || choice.min_p > 0) {
    const size_t most = kept;
    kept = 1;
    mass = has(0) ? candidates_[0].weight : 0;
    while (kept < most && mass < choice.top_p * total && has(kept) &&
           candidates_[kept].weight >= choice.min_p)
      mass += candidates_[kept++].weight;
  }
  double left = CounterUniform(choice.seed, static_cast<uint64_t>(choice.position)) * mass;
  for (size_t i = 0; i < kept && has(i); ++i) {
    left -= candidates_[i].weight;
    if (left < 0) return candidates_[i].token;
  }
  NUMOE_CHECK(!candidates_.empty()) << "the best logit is a candidate";
  return candidates_[std::min(kept, candidates_.size()) - 1].token;  // rounding left a small rest
}

}  // namespace numoe::execution
