// `numoe-kernel-bench moe`: one MoE layer of a real model's shape through the worker's own executor and pool.
//
// Weights are random, larger than any cache, and every call reads other experts than the last few. Times are
// medians; each call is paired with a read of the same number of bytes, so that the share of bandwidth holds
// on a machine whose speed drifts. `error` is mean|difference| / mean|reference| of the first tokens' outputs
// against double precision on the same dequantised weights.
#pragma once

#include <string>
#include <vector>

namespace numoe::worker {

struct MoeBenchOptions {
  std::string shape = "k2";  // k2 | deepseek-v3 | qwen3-30b | qwen3-235b | tiny
  int experts = 48;          // held in memory; 0: all of the model's
  int of = 0;  // experts that the router chooses from; 0: those held. Only those held are computed
  std::vector<int> tokens = {1, 8, 64, 256};
  std::string routing = "uniform";  // or skewed: popularity by Zipf's law
  std::string format = "raw_int4";
  std::string isa = "auto";
  std::string activations = "auto";
  bool outliers = false;  // a few channels of the activations are 20 to 50 times as large
  bool disturb = false;   // also measures the rate when CPU time is taken away; twice the memory
  int threads = 0;
  bool json = false;
};

/// Prints a table, or one JSON object per line. The program's exit code.
int RunMoeBench(const MoeBenchOptions& options);

}  // namespace numoe::worker
