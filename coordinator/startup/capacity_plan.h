// CapacityPlan: how much memory serving a model takes (weights, KV cache, scratch, experts), and whether that
// much is available, computed before anything is loaded.
//
// These are pure functions: numbers in, a printable plan or an error out. PlanCapacity chooses what the flags
// leave open: the longest sequence, the number of blocks of the KV cache, the number of experts that a GPU
// keeps. It asks `measure` how much memory a candidate would take (measured_plan.h asks a device that stores
// nothing). Available is the free memory of a GPU, or what the host has left after the reservations of all
// other daemons (host_share.h, common/topology/host_memory.h). All memory of the plan is reserved at the
// start, so that no request fails for lack of memory.
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

/// What the operator asks for by flags.
struct CapacityRequest {
  int sequences_max = 32;  // that are computed at the same time
  int step_tokens = 2048;  // of the largest step
  int64_t model_len_max =
      0;                  // tokens of a sequence; 0: the model's own limit, or the cache's if that is lower
  int64_t kv_tokens = 0;  // in the cache; 0: PlanCapacity chooses the number by the device
  execution::CacheType kv_type = execution::CacheType::kBf16;
  std::optional<int> gpu_experts = 0;    // per layer, on a GPU; as many as fit if nullopt
  TokenThreshold gpu_prefill = Never{};  // prompts for which the GPU fetches experts; Never: no windows
};

/// What memory is reserved for.
struct Capacity {
  int64_t model_len = 0;  // tokens of the longest sequence
  int kv_blocks = 0;
  int gpu_experts = 0;  // per layer, which stay on the GPU
  int window = 0;       // experts of a layer that are fetched together for long prompts
  bool operator==(const Capacity&) const = default;
};

/// The device that holds the model.
struct DeviceRoom {
  bool gpu = false;
  uint64_t available = 0;  // bytes of the GPU, before anything is loaded; host_share.h finds the host's
};

struct CapacityPlan {
  Capacity capacity;
  execution::DeviceMemory needs;
  uint64_t grammars = 0;   // bytes of compiled grammars that stay cached after their requests
  uint64_t available = 0;  // bytes for this process, or of the GPU, before anything is loaded
  std::string others;      // the host's memory that other processes will take, as words; "" if there is none
  bool gpu = false;
  execution::CacheType kv_type = execution::CacheType::kBf16;
  int step_tokens = 0;  // of the largest step

  int64_t kv_tokens() const { return int64_t{capacity.kv_blocks} * execution::kKvBlockTokens; }
  uint64_t total() const { return needs.total() + grammars; }
  /// Returns a line for each part, and one with the total and the available memory.
  std::vector<std::string> Table() const;
  /// RESOURCE_EXHAUSTED if it does not fit; the message names the flags to change and values that fit.
  absl::Status Check() const;
};

using MeasureCapacity = absl::FunctionRef<absl::StatusOr<execution::DeviceMemory>(const Capacity&)>;

/// Returns a plan that may not fit; its Check says so. Returns the errors of `measure`. REQUIRES: without a
/// GPU the request asks for no experts on one, neither kept nor fetched.
absl::StatusOr<CapacityPlan> PlanCapacity(const CapacityRequest& request, const ModelConfig& config,
                                          const DeviceRoom& room, MeasureCapacity measure);

/// Returns the number of blocks of KV cache that fit; 0 if not even one does. `one_block` is the memory of
/// the model with a cache of one block.
int64_t FittingCacheBlocks(const execution::DeviceMemory& one_block, uint64_t available);

}  // namespace numoe::startup
