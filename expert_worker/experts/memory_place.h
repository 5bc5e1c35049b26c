// MemoryPlace: on which nodes a slice's weights should lie, and how they come to lie there.
//
// New memory is bound to its nodes before anything is written to it (memory_policy.h), and its pages are made
// at once by the pool's threads: the kernel then gives up cached files of those nodes instead of taking
// another node's memory, and moves nothing later. Before each part is made, the nodes are asked whether they
// have room for it still (page_maker.h): the kernel would end a process where bound memory does not fit. What
// does not fit is said in a warning and left to the first touch, or with `required` refused. Where the
// machine's memory is all on these nodes, nothing of this is done. On several nodes (the
// clusters of a socket) every layer is spread evenly over all of them. Functions of values, called by the
// thread that loads.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/threading/thread_pool.h"
#include "common/topology/node_memory.h"
#include "expert_worker/experts/load_progress.h"

namespace numoe::worker {

struct MemoryPlace {
  MemoryKind kind;
  std::vector<int> nodes = {};       // OS numbers; empty: anywhere
  bool required = false;             // --pinning required: refuse what does not lie there
  LoadProgress* progress = nullptr;  // told of pages that are made; null: nobody
  // For memory that others are just giving back, all together and since the last of it came.
  std::chrono::milliseconds patience{10'000};
  std::chrono::milliseconds patience_without_more{1'000};
  std::filesystem::path root = "/";  // of /proc and /sys; another one in tests
};

/// Returns whether the nodes are known to have room for `bytes` of weights while the kernel could take memory
/// from other nodes, too. If they are known not to have room: RESOURCE_EXHAUSTED if local memory is required,
/// else a warning in the log.
absl::StatusOr<bool> FindRoom(const MemoryPlace& place, uint64_t bytes);

/// How one part of a layer is bound.
struct Stripe {
  absl::Span<std::byte> pages;
  std::vector<int> nodes;  // OS numbers
};
/// Layers, whole pages each, in turns over the nodes; with `even` false all of each layer to all nodes.
std::vector<Stripe> PlanStripes(const std::vector<absl::Span<std::byte>>& layers,
                                const std::vector<int>& nodes, bool even);

/// Binds and makes `layers`, whole pages that nobody has written, as far as there is room (FindRoom).
absl::Status BindMemory(const std::vector<absl::Span<std::byte>>& layers, const MemoryPlace& place,
                        ThreadPool& pool);

/// Once the weights are loaded: whether they lie on their nodes, as far as the kernel tells.
/// RESOURCE_EXHAUSTED if that is required, else a warning: others held the memory, and may not for ever.
absl::Status CheckWhereTheyLie(const MemorySpans& weights, const MemoryPlace& place);

}  // namespace numoe::worker
