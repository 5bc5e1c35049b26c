// CapacityPlan: what serving a model takes of memory - weights, KV cache, scratch, experts - and whether it
// is there, said before anything is loaded.
//
// Pure: numbers in, a printable plan or an error out. PlanCapacity works out what the flags leave open: how
// long sequences may be, how many blocks the KV cache has, how many experts a GPU keeps. It asks `measure`
// what a candidate would take (measured_plan.h asks a device that stores nothing). What is available to it is
// a GPU's free memory, or what the host leaves beside all other daemons, which have promised theirs
// (host_share.h, common/topology/host_memory.h). What the plan says is reserved at the start, so that no
// request finds memory missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/weights/model_config.h"
#include "coordinator/execution/device/device.h"
#include "coordinator/execution/device/kv_block.h"
#include "coordinator/startup/token_threshold.h"

namespace numoe::startup {

/// What the operator asks for.
struct CapacityRequest {
  int sequences_max = 32;     // that run at once
  int step_tokens = 2048;     // of the largest step
  int64_t model_len_max = 0;  // tokens of a sequence; 0: the model's, as far as the cache holds it
  int64_t kv_tokens = 0;      // in the cache; 0: as many as is right for the device
  execution::CacheType kv_type = execution::CacheType::kBf16;
  std::optional<int> gpu_experts = 0;    // of each layer, on a GPU; nullopt: as many as fit
  TokenThreshold gpu_prefill = Never{};  // prompts whose experts come to the GPU; Never: no windows for them
};

/// What is reserved for.
struct Capacity {
  int64_t model_len = 0;  // tokens of the longest sequence
  int kv_blocks = 0;
  int gpu_experts = 0;  // of each layer, which stay on the GPU
  int window = 0;       // experts of a layer that are fetched at a time for long prompts
  bool operator==(const Capacity&) const = default;
};

/// Where the model lives.
struct DeviceRoom {
  bool gpu = false;
  uint64_t available =
      0;  // of the GPU's memory, before anything is loaded; the host tells its own (host_share.h)
};

struct CapacityPlan {
  Capacity capacity;
  execution::DeviceMemory needs;
  uint64_t grammars = 0;   // that requests may leave behind
  uint64_t available = 0;  // to this process, or of the GPU, before anything is loaded
  std::string others;      // what other processes will take of the host, for a sentence; empty: nothing
  bool gpu = false;
  execution::CacheType kv_type = execution::CacheType::kBf16;
  int step_tokens = 0;  // of the largest step

  int64_t kv_tokens() const { return int64_t{capacity.kv_blocks} * execution::kKvBlockTokens; }
  uint64_t total() const { return needs.total() + grammars; }
  /// A line for each part, the total, and what there is.
  std::vector<std::string> Table() const;
  /// RESOURCE_EXHAUSTED: it does not fit; names the flags to change, and to what.
  absl::Status Check() const;
};

using MeasureCapacity = absl::FunctionRef<absl::StatusOr<execution::DeviceMemory>(const Capacity&)>;

/// A plan that may not fit, which its Check says. Errors are those of `measure`. REQUIRES: without a GPU no
/// expert is asked to be on one, whether it stays or is fetched.
absl::StatusOr<CapacityPlan> PlanCapacity(const CapacityRequest& request, const ModelConfig& config,
                                          const DeviceRoom& room, MeasureCapacity measure);

/// Blocks of KV cache that fit where `one_block` says what the model takes with a cache of one; 0: not even
/// that one fits.
int64_t FittingCacheBlocks(const execution::DeviceMemory& one_block, uint64_t available);

}  // namespace numoe::startup
