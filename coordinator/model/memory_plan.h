// MemoryPlan: what serving a model takes of this machine, said before it is loaded, and refused if it is not
// there.
//
// Pure: numbers in, text or an error out. The needs come from a device that only measured; what is available
// from common/topology/host_memory.h, next to the other processes of this host. What the device needs is
// reserved at the start, so that no request finds memory missing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/device/device.h"

namespace numoe {

/// Blocks of KV cache that fit where `one_block` says what the model takes with a cache of one; 0: not even
/// that one fits.
int64_t FittingCacheBlocks(const DeviceMemory& one_block, uint64_t available);

struct MemoryPlan {
  DeviceMemory needs;
  uint64_t grammars = 0;   // that requests may leave behind
  uint64_t available = 0;  // to this process, or of the GPU, before anything is loaded
  std::string others;      // what other processes will take of the host, for a sentence; empty: nothing
  bool gpu = false;
  int gpu_experts = 0;    // of each layer
  int window = 0;         // experts of a layer that are fetched at a time for long prompts
  int64_t kv_tokens = 0;  // that the KV cache holds
  CacheType kv_type = CacheType::kBf16;
  int step_tokens = 0;  // of the largest step

  uint64_t total() const { return needs.total() + grammars; }
  /// A line for each part, the total, and what there is.
  std::vector<std::string> Table() const;
  /// RESOURCE_EXHAUSTED: it does not fit; names the flags to change, and to what.
  absl::Status Check() const;
};

}  // namespace numoe
