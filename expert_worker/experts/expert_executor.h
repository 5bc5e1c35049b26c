// ExpertExecutor: one worker's slice of every expert, and the thread pool that computes layer calls on it.
//
// Loaded once from the checkpoint into node-local, huge-page memory; then read-only. A call maps
// (layer, hidden states, expert ids, weights) to this slice's weighted partial sums: the sum over all workers'
// outputs is the MoE layer's routed output. Holds no request state. Execute is called by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"
#include "common/transport/layer_call.h"
#include "common/weights/checkpoint.h"
#include "common/weights/model_config.h"

namespace numoe {

enum class SliceMode : uint8_t { kIntermediate, kExpert };  // 1/N of every expert | whole experts, expert % N == index

struct SliceSpec {
  SliceMode mode = SliceMode::kIntermediate;
  int worker_index = 0;
  int worker_count = 1;
};

struct ExecutorOptions {
  SliceSpec slice;
  std::string format = "auto";    // auto | raw_int4 | int4 | int8 | bf16 | fp8
  std::string isa = "auto";
  int threads = 0;                // 0: every CPU of the home node that this process may use
  int node = -1;                  // NUMA node (logical index among allowed ones); -1: worker_index modulo nodes
};

class ExpertExecutor : public LayerExecutor {
 public:
  /// Loads the slice. InvalidArgument when the slice cuts a quantisation block: says which and suggests the other mode.
  static absl::StatusOr<std::unique_ptr<ExpertExecutor>> Load(const Checkpoint& checkpoint, const ModelConfig& config,
                                                              const ExecutorOptions& options);
  virtual const SliceSpec& slice() const = 0;
  virtual std::string Describe() const = 0;  // format, isa, threads, node, bytes, pinned: the start log line
  virtual uint64_t WeightBytes() const = 0;
};

}  // namespace numoe
