// `numoe-kernel-bench moe`: one MoE layer with the shape of a real model in the worker's own executor and
// pool.
//
// The weights are random and larger than any cache, and every call reads other experts than the last few
// calls. Times are medians. Each call is paired with a read of the same number of bytes, so that the share of
// bandwidth is valid on a machine whose speed varies. `error` is mean|difference| / mean|reference| of the
// first tokens' outputs, compared with double precision on the same dequantised weights.
#pragma once

#include <string>
#include <vector>

namespace numoe::worker {

struct MoeBenchOptions {
  std::string shape = "k2";  // k2 | deepseek-v3 | qwen3-30b | qwen3-235b | tiny
  int experts = 48;          // held in memory; 0 means all of the model
  int of = 0;  // experts that the gate chooses from; 0 means those held. Only those held are computed
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

/// Prints a table, or one JSON object per line. Returns the program's exit code.
int RunMoeBench(const MoeBenchOptions& options);

}  // namespace numoe::worker
