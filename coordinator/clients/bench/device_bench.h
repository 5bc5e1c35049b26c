// `numoe-bench device`: the CPU device's operations against this machine's limits, at real dimensions.
//
// Dense products and attention, each for one token and for many, through the device that serves. A limit is
// the larger of what reading the bytes and what the arithmetic would take at best, both measured beside each
// point; weights and caches are larger than any cache of the CPU and walked round robin. Prints a table, or
// one JSON object per line.
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
  std::vector<int> contexts = {8192};  // of attention, the step's tokens included
  int threads = 0;
  bool json = false;
};

/// The program's exit code.
int RunDeviceBench(const DeviceBenchOptions& options);

}  // namespace numoe::clients
