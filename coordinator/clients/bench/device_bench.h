// `numoe-bench device`: compares the CPU device's operations with this machine's limits, at real dimensions.
//
// It measures dense products and attention, each for one token and for many, with the device that serves. The
// limit is the larger of the times that reading the bytes and the arithmetic would take at best, both
// measured next to each point. Weights and caches are larger than any cache of the CPU and are used in turn.
// It prints a table, or one JSON object per line.
#pragma once

#include <string>
#include <vector>

namespace numoe::clients {

struct DeviceBenchOptions {
  std::string shape = "qwen3-30b";      // qwen3-30b | qwen3-235b | k2 | deepseek-v3
  std::string dense_format = "bf16";    // bf16 | fp8 | int8 | int4
  std::string kv_cache_dtype = "bf16";  // bf16 | fp8_e4m3
  std::string isa = "auto";
  std::vector<int> tokens = {1, 512};
  std::vector<int> contexts = {8192};  // of attention, including the step's tokens
  int threads = 0;
  bool json = false;
};

/// Returns the program's exit code.
int RunDeviceBench(const DeviceBenchOptions& options);

}  // namespace numoe::clients
