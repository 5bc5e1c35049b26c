// ExpertExecutor: one worker's slice of every expert, and the thread pool that computes layer calls on it.
//
// The weights are loaded once from the checkpoint into node-local memory with huge pages, and are read-only
// afterwards. A call maps (layer, hidden states, expert ids, weights) to this slice's weighted partial sums.
// The sum of all workers' outputs is the MoE layer's routed output. It has the same bits in every run,
// because each output is computed by one task, which adds experts in ascending order. The executor holds no
// state of requests. One thread at a time calls Execute; any thread calls Stats.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"
#include "common/threading/caller_threads.h"
#include "common/topology/node_memory.h"
#include "common/topology/topology.h"
#include "common/transport/layer_call.h"
#include "common/weights/checkpoint.h"
#include "common/weights/model_config.h"
#include "expert_worker/experts/expert_statistics.h"
#include "expert_worker/experts/load_progress.h"
#include "expert_worker/experts/slice_layout.h"

namespace numoe::worker {

struct ExpertSlice;
struct PackedModel;

struct ExecutorOptions {
  SliceSpec slice;
  std::optional<WeightFormat> format = std::nullopt;  // of the experts in memory; nullopt means as published
  std::optional<Isa> isa = std::nullopt;              // nullopt means the best of this CPU
  Precision precision = Precision::kFast;             // of activations in products with weights
  int threads = 0;                   // 0 means one for each core of the worker's share (PlacementRequest)
  std::vector<int> numa_nodes = {};  // OS numbers; empty means the nodes that worker_index implies
  int local_workers = 0;             // workers of the set on this host; 0 means all of them
  bool alone = false;                // no other worker has the CPUs that this process may use
  bool local_required = false;       // refuse to load if the weights are not on the home nodes
  std::optional<Placement> home;     // the result of FindHome; if nullopt, Load calls it
  bool map_packed = true;            // use packed shards in place, in the page cache; false means copy them
  MemoryKind memory;                 // for weights that are not mapped from packed shards
  LoadProgress* progress = nullptr;  // for metrics; if null, progress is only logged
  // Called once, before memory is taken, with the bytes of this host's free memory that the weights will
  // take. An error ends the load. May be null.
  std::function<absl::Status(uint64_t weight_bytes)> ask_for_memory = nullptr;
};

/// What a worker reports about itself in addition to ExpertStatistics. Counters begin at the start of the
/// process.
struct ExecutorStats {
  uint64_t failed_calls = 0;
  uint64_t weight_bytes = 0;
  uint64_t weight_bytes_used = 0;  // of the experts that calls needed, once for each call
  int threads = 0;
  bool pinned = false;                    // every thread that computes is bound to its CPU now
  std::vector<int> nodes;                 // home, OS numbers
  std::optional<double> huge_page_share;  // of the weights; nullopt if the kernel does not say
  // The shares on the home nodes and by node, of all weights' pages whose node the kernel says. Measured when
  // asked, which takes about a millisecond. nullopt and empty if the kernel does not say the node of any
  // page.
  std::optional<double> local_share;
  std::map<int, double> node_shares;
};

class ExpertExecutor : public LayerExecutor {
 public:
  /// Loads the slice and logs progress. InvalidArgument if the slice would cut a quantisation block; the
  /// message says which one and suggests the other mode. The calling thread runs on the home node meanwhile.
  static absl::StatusOr<std::unique_ptr<ExpertExecutor>> Load(const Checkpoint& checkpoint,
                                                              const ModelConfig& config,
                                                              const ExecutorOptions& options);
  /// Loads the slice from packed shards. FailedPrecondition if they were packed for another slice, in another
  /// format or in another layout; the message says what to do.
  static absl::StatusOr<std::unique_ptr<ExpertExecutor>> LoadPacked(const PackedModel& model,
                                                                    const ExecutorOptions& options);
  virtual const SliceSpec& slice() const = 0;
  virtual std::string Describe() const = 0;  // format, isa, threads, node, bytes, pinned: the start log line
  virtual uint64_t WeightBytes() const = 0;
  virtual ExecutorStats Stats() const = 0;
  virtual const ExpertStatistics& Statistics() const = 0;
  virtual const ExpertSlice& Weights() const = 0;
  /// The CPUs for threads that call Execute. Such a thread computes, too, and has to be bound meanwhile
  /// (ScopedCaller).
  virtual CallerThreads& Callers() = 0;
  /// From now on one thread for each of these CPUs computes on it; the other threads sleep. Any thread may
  /// call this.
  virtual void MoveTo(const std::vector<int>& cpus) = 0;
};

}  // namespace numoe::worker
