// ExpertExecutor: one worker's slice of every expert, and the thread pool that computes layer calls on it.
//
// Loaded once from the checkpoint into node-local, huge-page memory; then read-only. A call maps
// (layer, hidden states, expert ids, weights) to this slice's weighted partial sums: the sum over all
// workers' outputs is the MoE layer's routed output, and the same bits in every run: each output has one
// owner, who adds experts in ascending order. Holds no request state. Execute is called by one thread at a
// time, Stats by any.
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
  std::optional<WeightFormat> format = std::nullopt;  // in which experts are held; nullopt: as published
  std::optional<Isa> isa = std::nullopt;              // nullopt: the best that this CPU has
  Precision precision = Precision::kFast;             // of activations in products with weights
  int threads = 0;                   // 0: every CPU of the home nodes that this process may use
  std::vector<int> numa_nodes = {};  // OS numbers; empty: those that are worker_index's
  int local_workers = 0;             // of the set, on this host; 0: not told, taken for all
  bool alone = false;                // no other worker has the CPUs that this process may use
  bool local_required = false;       // refuse where the weights do not lie on the home nodes
  std::optional<Placement> home;     // as FindHome said it; nullopt: Load asks it
  bool map_packed = true;  // packed shards: use them where the page cache has them; false: copy them
  MemoryKind memory;       // of weights that are not mapped from packed shards
  LoadProgress* progress = nullptr;  // for metrics; null: the log only
  // Told once how many bytes the weights will take of this host's free memory, before they take any; an error
  // ends the load. Null: nobody plans.
  std::function<absl::Status(uint64_t weight_bytes)> ask_for_memory = nullptr;
};

/// What a worker reports about itself beside ExpertStatistics. Counters since the start.
struct ExecutorStats {
  uint64_t failed_calls = 0;
  uint64_t weight_bytes = 0;
  uint64_t weight_bytes_used = 0;  // of the experts that calls needed, once for each call
  int threads = 0;
  bool pinned = false;                    // every thread that computes bound to its CPU, as of now
  std::vector<int> nodes;                 // home, OS numbers
  std::optional<double> huge_page_share;  // of the weights; nullopt: the kernel does not say
  // Of the weights' pages that the kernel tells the node of, measured when asked (about a millisecond): on
  // the home nodes, and by node; nullopt and empty: it tells of none.
  std::optional<double> local_share;
  std::map<int, double> node_shares;
};

class ExpertExecutor : public LayerExecutor {
 public:
  /// Loads the slice. InvalidArgument when the slice cuts a quantisation block: says which and suggests the
  /// other mode. Logs progress. The calling thread runs on the home node meanwhile.
  static absl::StatusOr<std::unique_ptr<ExpertExecutor>> Load(const Checkpoint& checkpoint,
                                                              const ModelConfig& config,
                                                              const ExecutorOptions& options);
  /// The same from packed shards. FailedPrecondition when they are another slice's, another format's, or of
  /// another layout: says what to do.
  static absl::StatusOr<std::unique_ptr<ExpertExecutor>> LoadPacked(const PackedModel& model,
                                                                    const ExecutorOptions& options);
  virtual const SliceSpec& slice() const = 0;
  virtual std::string Describe() const = 0;  // format, isa, threads, node, bytes, pinned: the start log line
  virtual uint64_t WeightBytes() const = 0;
  virtual ExecutorStats Stats() const = 0;
  virtual const ExpertStatistics& Statistics() const = 0;
  virtual const ExpertSlice& Weights() const = 0;
  /// Of the threads that call Execute: they compute, too, and are to be bound while they do (ScopedCaller).
  virtual CallerThreads& Callers() = 0;
  /// From now on its threads compute on these CPUs, as many of them as there are; the others sleep. Any
  /// thread.
  virtual void MoveTo(const std::vector<int>& cpus) = 0;
};

}  // namespace numoe::worker
