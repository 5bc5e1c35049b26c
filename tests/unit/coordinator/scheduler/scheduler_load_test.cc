// What load does to throughput and to those who are being served, in virtual time.
#include <algorithm>
#include <cstdio>
#include <random>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/scheduler/simulation.h"

namespace numoe {
namespace {

std::vector<SimulatedRequest> Conversations(int count, double rate) {
  std::mt19937 random(31);
  std::vector<SimulatedRequest> requests;
  double at = 0;
  for (int i = 0; i < count; ++i) {
    SimulatedRequest r{.at_s = at};
    r.prompt.resize(100 + random() % 800);
    for (TokenId& t : r.prompt) t = static_cast<TokenId>(random() % 90);
    r.sampling = {.temperature = 0, .max_tokens = static_cast<int>(50 + random() % 950)};
    requests.push_back(r);
    at += rate;
  }
  return requests;
}

double Throughput(const std::vector<SimulatedRequest>& requests, int blocks, int seqs, StepCost cost, bool prefix) {
  SimulationOptions options{.engine = {.limits = {.sequences_max = seqs, .step_tokens = 2048, .block_tokens = 16},
                                       .kv_blocks = blocks,
                                       .max_model_len = 100'000,
                                       .vocab = ScriptedModel::kVocab,
                                       .prefix_caching = prefix},
                            .cost = cost};
  Simulation simulation(options);
  simulation.Run(requests);
  const EngineStats stats = simulation.Stats();
  const double t = static_cast<double>(stats.tokens_generated) / simulation.now_s();
  std::printf("blocks %d seqs %d: %.1f tok/s, %lu preemptions, computed %lu, generated %lu, steps %lu hit %lu\n", blocks, seqs, t,
              stats.preemptions, stats.tokens_computed, stats.tokens_generated, stats.steps, stats.prefix_hit_tokens);
  return t;
}

TEST(SchedulerLoadTest, Overcommit) {
  const auto requests = Conversations(300, 0);
  // mean 500 + 525: at end; mean held ~ 762 -> 48 blocks; 64 at end.
  for (const bool prefix : {true, false}) {
  for (const StepCost& cost : {StepCost{}, StepCost{.step = 0.001, .token = 0.002, .row = 0}, StepCost{.step = 0.1, .token = 0, .row = 0}}) {
    for (const int seqs : {64, 128, 256})
    for (const int blocks : {64 * 16, 64 * 32, 64 * 64, 64*128}) Throughput(requests, blocks, seqs, cost, prefix);
    std::printf("\n");
  }
  }
}

}  // namespace
}  // namespace numoe
