// MemoryPlacement: the NUMA nodes on which a slice's weights should be, and how their pages get there.
//
// New memory is bound to its nodes before anything is written to it (memory_policy.h), and the pool's threads
// allocate its pages at once. The kernel then drops cached files of those nodes instead of taking another
// node's memory, and moves nothing later. Before each part is allocated, the free memory of the nodes is read
// again (page_allocator.h), because the kernel kills a process whose bound memory does not fit. If the
// weights do not fit, they are not bound: a warning says so, or an error if `required` is set. Nothing is
// bound if all memory of the machine is on these nodes. With several nodes (the clusters of a socket) every
// layer is spread evenly over all of them. These are functions of values; the thread that loads calls them.
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

struct MemoryPlacement {
  MemoryKind kind;
  std::vector<int> nodes = {};       // OS numbers; empty means any node
  bool required = false;             // --pinning required: refuse weights that are not on these nodes
  LoadProgress* progress = nullptr;  // receives the bytes of pages that were allocated; may be null
  // How long to wait for memory that other processes are giving back: in all, and after the last growth.
  std::chrono::milliseconds patience{10'000};
  std::chrono::milliseconds patience_without_more{1'000};
  std::filesystem::path root = "/";  // of /proc and /sys; tests give another one
};

/// Returns whether to bind `bytes` of weights: true if the machine also has memory on other nodes and the
/// nodes have room; false if the kernel does not say how much. If they have too little room, it returns
/// RESOURCE_EXHAUSTED if `required` is set, else it logs a warning and returns false.
absl::StatusOr<bool> FindRoom(const MemoryPlacement& placement, uint64_t bytes);

/// A part of a layer and the nodes to which it is bound.
struct Stripe {
  absl::Span<std::byte> pages;
  std::vector<int> nodes;  // OS numbers
};
/// Divides `layers`, which are whole pages, into stripes that go to the nodes in turn. If `even` is false,
/// each layer is one stripe that is bound to all nodes.
std::vector<Stripe> PlanStripes(const std::vector<absl::Span<std::byte>>& layers,
                                const std::vector<int>& nodes, bool even);

/// Binds `layers` and allocates their pages if there is room (FindRoom). REQUIRES: they are whole pages that
/// nothing has written yet.
absl::Status BindMemory(const std::vector<absl::Span<std::byte>>& layers, const MemoryPlacement& placement,
                        ThreadPool& pool);

/// Call this after the weights are loaded. If the kernel says that too few of them are on their nodes, it
/// returns RESOURCE_EXHAUSTED if `required` is set (another start may find the memory free), else it logs a
/// warning.
absl::Status CheckPlacement(const MemorySpans& weights, const MemoryPlacement& placement);

}  // namespace numoe::worker
