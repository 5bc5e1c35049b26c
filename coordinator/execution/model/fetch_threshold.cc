#include "coordinator/execution/model/fetch_threshold.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::execution {
namespace {

// Enough tokens that each expert of a large model is selected by several, and few enough that a call takes at
// most a second or two.
constexpr int kManyTokens = 1024;
constexpr int kFewShare = 4;  // the other call has a fourth of these tokens
static_assert(kFewShare > 1 && kManyTokens > kFewShare, "the other call has fewer tokens");

// Makes one call and returns how many seconds it took.
absl::StatusOr<double> TimeCall(ExpertBackend& experts, const ModelConfig& config, LayerId layer,
                                int tokens) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto rows = static_cast<size_t>(tokens), hidden = static_cast<size_t>(config.hidden_size);
  const auto per_token = static_cast<size_t>(config.experts_per_token);
  std::vector<float> states(rows * hidden), sums(rows * hidden);
  for (float& value : states) value = normal(random);
  std::vector<ExpertId> all(static_cast<size_t>(config.num_experts)), chosen;
  std::iota(all.begin(), all.end(), ExpertId{0});
  for (size_t t = 0; t < rows; ++t)
    std::sample(all.begin(), all.end(), std::back_inserter(chosen), per_token, random);
  NUMOE_CHECK_EQ(chosen.size(), rows * per_token) << "each token selects experts_per_token experts";
  const std::vector<float> weights(rows * per_token, 1.0f / static_cast<float>(per_token));
  const auto begin = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(experts.Start({.layer = layer,
                                 .tokens = tokens,
                                 .experts_per_token = config.experts_per_token,
                                 .hidden = states,
                                 .experts = chosen,
                                 .weights = weights}));
  RETURN_IF_ERROR(experts.Finish(absl::MakeSpan(sums)));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

WorkerPace PaceOf(int few_tokens, double few_s, int many_tokens, double many_s) {
  NUMOE_CHECK(few_tokens > 0 && many_tokens > few_tokens);
  const double token_s = std::max(0.0, (many_s - few_s) / (many_tokens - few_tokens));
  return {.call_s = std::max(0.0, few_s - token_s * few_tokens), .token_s = token_s};
}

absl::StatusOr<WorkerPace> MeasureWorkerPace(ExpertBackend& experts, const ModelConfig& config,
                                             int tokens_max) {
  const auto first = std::find(config.layer_is_moe.begin(), config.layer_is_moe.end(), true);
  if (first == config.layer_is_moe.end()) return absl::NotFoundError("the model has no routed experts");
  const auto layer = static_cast<LayerId>(first - config.layer_is_moe.begin());
  const int many = std::max(2, std::min(tokens_max, kManyTokens));
  const int few = std::max(1, many / kFewShare);
  RETURN_IF_ERROR(TimeCall(experts, config, layer, many).status());  // wakes threads and allocates scratch
  ASSIGN_OR_RETURN(const double few_s, TimeCall(experts, config, layer, few));
  ASSIGN_OR_RETURN(const double many_s, TimeCall(experts, config, layer, many));
  return PaceOf(few, few_s, many, many_s);
}

int ChooseFetchThreshold(const WorkerPace& pace, double fetch_s) {
  NUMOE_CHECK(pace.call_s >= 0 && pace.token_s >= 0) << "PaceOf returns no negative times";
  if (fetch_s <= pace.call_s) return 2;
  const double tokens = std::ceil((fetch_s - pace.call_s) / pace.token_s);
  return tokens < std::numeric_limits<int>::max() ? std::max(2, static_cast<int>(tokens)) : INT_MAX;
}

}  // namespace numoe::execution
