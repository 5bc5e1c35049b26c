// Layer calls as a model's gate would make them, for the benchmark of an MoE layer.
//
// Uniform: every choice is a random expert. If a call touches less than half of the held experts, it takes
// none of those of the call before, so that weights are read from memory. Skewed: expert e has probability 1
// / (e + 1), which is Zipf's law. Single-threaded; the calls are the same in every run.
#pragma once

#include <random>
#include <vector>

#include "common/transport/layer_call.h"

namespace numoe::worker {

struct MoeRouting {
  int experts = 0;  // of the model: the gate chooses from all of them
  int held = 0;     // experts e with e % (experts / held) == 0 are in memory and computed
  int per_token = 8;
  bool skewed = false;

  bool Holds(ExpertId expert) const { return expert % (experts / held) == 0; }
};

struct RoutedCall {
  std::vector<ExpertId> experts;  // [tokens, per_token], distinct within a token
  std::vector<float> weights;
  int distinct = 0;  // number of held experts that the call touches
  int rows = 0;      // (token, held expert) pairs
};

class MoeRouter {
 public:
  explicit MoeRouter(const MoeRouting& routing);
  RoutedCall Make(int tokens);

 private:
  ExpertId Next(bool cold);

  const MoeRouting routing_;
  std::mt19937 random_{3};
  std::discrete_distribution<ExpertId> by_popularity_;
  std::vector<bool> last_;  // [experts] touched by the last call
};

}  // namespace numoe::worker
