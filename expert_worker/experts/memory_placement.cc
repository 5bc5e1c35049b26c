#include "expert_worker/experts/memory_placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "common/base/check.h"
#include "common/base/first_error.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/topology/memory_policy.h"
#include "common/topology/node_room.h"
#include "common/topology/number_list.h"
#include "expert_worker/experts/page_allocator.h"

namespace numoe::worker {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// What one thread allocates before the free memory of the nodes is read again.
constexpr size_t kPartBytes = size_t{64} << 20;
static_assert(kPartBytes % kHugePage == 0, "no page is allocated by two threads");
// A layer on several nodes has this number of stripes: enough that the few experts of a call are spread over
// all nodes, and few enough that the stripes of all layers stay far below the 65,530 mappings of a process. A
// layer that has less than a huge page for each node is on one of them.
constexpr size_t kStripes = 64;
// A worker with a smaller share of its weights on its own nodes is slow. The alert NumoeWeightsRemote has the
// same limit.
constexpr double kLocalShareMin = 0.95;

using Part = absl::Span<std::byte>;

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string NodesText(const std::vector<int>& nodes) {
  return fmt::format("node{} {}", nodes.size() == 1 ? "" : "s", fmt::join(nodes, ","));
}

// Returns whether each of the nodes has room for an even share.
bool CanBeEven(const std::vector<NodeRoom>& rooms, const MemoryPlacement& placement, uint64_t bytes) {
  return placement.nodes.size() > 1 && rooms.size() == placement.nodes.size() &&
         std::all_of(rooms.begin(), rooms.end(),
                     [&](const NodeRoom& room) { return room.Available() >= bytes / rooms.size(); });
}

// Returns whether all memory of the machine is on these nodes. Then there is nothing to choose, and nothing
// to wait for: what is free is known better by the host's own numbers (ZFS, for example, gives up its cache
// as well). A cpuset that allows a process one of several nodes is a different case, because the process
// cannot use the others' memory.
bool IsAllThereIs(const MemoryPlacement& placement) {
  auto nodes = ReadNumberList(placement.root / "sys/devices/system/node/has_memory");
  if (!nodes) nodes = ReadStatusList(placement.root, "Mems_allowed_list:");
  return nodes && !nodes->empty() && std::all_of(nodes->begin(), nodes->end(), [&](int node) {
           return std::find(placement.nodes.begin(), placement.nodes.end(), node) != placement.nodes.end();
         });
}

// Returns the free memory of the nodes as soon as `bytes` fit, or when the patience is exhausted. It waits
// because the kernel needs seconds to free the memory of a process that has just ended.
std::vector<NodeRoom> AwaitRoom(const MemoryPlacement& placement, uint64_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kReadEvery{200};
  const auto begin = Clock::now();
  auto grew = begin;
  uint64_t most = 0;
  for (bool said = false;; said = true) {
    std::vector<NodeRoom> rooms = ReadNodeRooms(placement.root, placement.nodes);
    if (rooms.size() != placement.nodes.size() || AvailableOn(rooms) >= bytes) return rooms;
    const auto now = Clock::now();
    if (AvailableOn(rooms) > most) grew = now;
    most = std::max(most, AvailableOn(rooms));
    if (now - begin >= placement.patience || now - grew >= placement.patience_without_more) return rooms;
    if (!said) {
      LogInfo(
          "{:.2f} GiB of weights do not fit {} yet: {}; waiting while other processes give memory back, {} "
          "s at most",
          Gib(bytes), NodesText(placement.nodes), Describe(rooms), placement.patience.count() / 1000);
    }
    std::this_thread::sleep_for(kReadEvery);
  }
}

// Lets the kernel choose the nodes of `part` when it is written, or returns an error if local memory is
// required.
absl::Status AllocateElsewhere(const MemoryPlacement& placement, const Part& part) {
  if (!placement.required) return SetMemoryPolicy(part, MemoryPolicy::kLocal, {});
  return absl::ResourceExhaustedError(fmt::format(
      "--pinning required: other processes took memory of {} while the weights were allocated: {}; "
      "expected room for all weights: free memory there, or start workers one after the other",
      NodesText(placement.nodes), Describe(ReadNodeRooms(placement.root, placement.nodes))));
}

absl::Status AllocateAll(const std::vector<Stripe>& stripes, const MemoryPlacement& placement,
                         ThreadPool& pool) {
  std::vector<Part> parts;
  for (const Stripe& stripe : stripes) {
    for (size_t at = 0; at < stripe.pages.size(); at += kPartBytes)
      parts.push_back(stripe.pages.subspan(at, std::min(kPartBytes, stripe.pages.size() - at)));
  }
  PageAllocator allocator(
      {.free_bytes = [&] { return AvailableOn(ReadNodeRooms(placement.root, placement.nodes)); },
       .allocate =
           [&](const Part& part) {
             const absl::Status allocated = PopulatePages(part);
             if (placement.progress != nullptr) placement.progress->AddPages(part.size());
             return allocated;
           },
       .allocate_elsewhere = [&](const Part& part) { return AllocateElsewhere(placement, part); }});
  FirstError first_error;
  pool.Run(static_cast<int>(parts.size()),
           [&](int part, int) { first_error.Note(allocator.Allocate(parts[static_cast<size_t>(part)])); });
  RETURN_IF_ERROR(first_error.status());
  if (allocator.bytes_elsewhere() > 0) {
    LogWarning(
        "other processes took memory of {} meanwhile: {:.2f} GiB of the weights will be on other nodes, "
        "where reading them is slower",
        NodesText(placement.nodes), Gib(allocator.bytes_elsewhere()));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Stripe> PlanStripes(const std::vector<Part>& layers, const std::vector<int>& nodes, bool even) {
  NUMOE_CHECK(!nodes.empty());
  std::vector<Stripe> stripes;
  size_t turn = 0;
  for (const Part& layer : layers) {
    const bool cut = even && layer.size() >= nodes.size() * kHugePage;
    const size_t stripe = cut ? (layer.size() / kStripes + kHugePage) / kHugePage * kHugePage : layer.size();
    for (size_t at = 0; at < layer.size(); at += stripe) {
      stripes.push_back({layer.subspan(at, std::min(stripe, layer.size() - at)), nodes});
      if (even) stripes.back().nodes = {nodes[turn++ % nodes.size()]};
    }
  }
  return stripes;
}

absl::StatusOr<bool> FindRoom(const MemoryPlacement& placement, uint64_t bytes) {
  if (IsAllThereIs(placement)) return false;
  const std::vector<NodeRoom> rooms = AwaitRoom(placement, bytes);
  if (rooms.empty() || rooms.size() != placement.nodes.size()) return false;
  if (AvailableOn(rooms) >= bytes) return true;
  const std::string lack = fmt::format("{:.2f} GiB of weights do not fit {}: {}", Gib(bytes),
                                       NodesText(placement.nodes), Describe(rooms));
  if (placement.required) {
    return absl::ResourceExhaustedError(fmt::format(
        "--pinning required: {}; expected room for all of them: free memory there, start more workers, "
        "or choose a smaller --format; with --pinning=preferred a part of them is on other nodes, where "
        "reading it is slower",
        lack));
  }
  LogWarning(
      "{}; a part of them will be on other nodes, where reading it is slower; to avoid that, free memory "
      "there, start more workers, or choose a smaller --format",
      lack);
  return false;
}

absl::Status BindMemory(const std::vector<Part>& layers, const MemoryPlacement& placement, ThreadPool& pool) {
  if (placement.nodes.empty() || layers.empty() || IsAllThereIs(placement)) return absl::OkStatus();
  uint64_t bytes = 0;
  for (const Part& layer : layers) bytes += layer.size();
  // If the kernel does not say how much is free, nothing is bound, because it might kill this process.
  ASSIGN_OR_RETURN(const bool bind, FindRoom(placement, bytes));
  const bool even = bind && CanBeEven(ReadNodeRooms(placement.root, placement.nodes), placement, bytes);
  const std::vector<Stripe> stripes = PlanStripes(layers, placement.nodes, even);
  for (size_t i = 0; i < stripes.size(); ++i) {
    const absl::Status set = SetMemoryPolicy(
        stripes[i].pages, bind ? MemoryPolicy::kBind : MemoryPolicy::kLocal, stripes[i].nodes);
    if (set.ok()) continue;
    // From here on the free memory is not read again before pages are written, so no stripe may stay bound:
    // the kernel might kill this process.
    for (size_t before = 0; before < i; ++before)
      SetMemoryPolicy(stripes[before].pages, MemoryPolicy::kLocal, {}).IgnoreError();
    LogInfo(
        "the weights cannot be bound to {} ({}): their pages will be on the nodes of the threads that write "
        "them",
        NodesText(placement.nodes), std::string(set.message()));
    return absl::OkStatus();
  }
  return bind ? AllocateAll(stripes, placement, pool) : absl::OkStatus();
}

absl::Status CheckPlacement(const MemorySpans& weights, const MemoryPlacement& placement) {
  const double local = LocalShare(weights, placement.nodes).value_or(1);
  if (placement.nodes.empty() || local >= kLocalShareMin) return absl::OkStatus();
  const std::string found = fmt::format("{:.0f}% of the weights are on {}, expected at least {:.0f}%: {}",
                                        100 * local, NodesText(placement.nodes), 100 * kLocalShareMin,
                                        Describe(ReadNodeRooms(placement.root, placement.nodes)));
  if (placement.required) {
    return absl::ResourceExhaustedError(fmt::format(
        "--pinning required: {}; free memory there (numoe-expert-worker --preflight says what "
        "holds it), or allow this process to bind its memory (in containers: the capability SYS_NICE)",
        found));
  }
  LogWarning("{}; the others are slower to read; free memory there and start this worker again", found);
  return absl::OkStatus();
}

}  // namespace numoe::worker
