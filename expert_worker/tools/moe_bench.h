// `numoe-kernel-bench moe`: one MoE layer of a real model's shape through the worker's own executor and pool.
//
// Weights are random, larger than any cache, and every call reads other experts than the last few. Times are
// medians; each call is paired with a read of the same number of bytes, so that the share of bandwidth holds
// on a machine whose speed drifts. `error` is mean|difference| / mean|reference| of the first tokens' outputs
// against double precision on the same dequantised weights.
#pragma once

#include <string>
#include <vector>

namespace numoe {

struct MoeBenchOptions {
  std::string shape = "k2";  // k2 | deepseek-v3 | qwen3-30b | qwen3-235b
  int experts = 48;          // held in memory; the routing draws from these
  std::vector<int> tokens = {1, 8, 64, 256};
  std::string format = "raw_int4";
  std::string isa = "auto";
  int threads = 0;
  bool skewed = false;  // expert popularity by Zipf's law instead of uniform
  bool json = false;
};

/// Prints a table, or one JSON object per line. The program's exit code.
int RunMoeBench(const MoeBenchOptions& options);

}  // namespace numoe
