#include "expert_worker/experts/memory_place.h"

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
#include "expert_worker/experts/page_maker.h"

namespace numoe::worker {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// Made by one thread between two looks at the nodes' room.
constexpr size_t kPartBytes = size_t{64} << 20;
static_assert(kPartBytes % kHugePage == 0, "no page is made by two threads");
// Stripes of a layer over several nodes: enough that the few experts of a call lie on all of them, few enough
// that all layers' together stay far below the 65,530 mappings of a process. A layer that is smaller than a
// huge page for each node lies on one of them.
constexpr size_t kStripes = 64;
// Less than this on the worker's own nodes costs speed: the alert NumoeWeightsRemote has the same.
constexpr double kLocalShareMin = 0.95;

using Part = absl::Span<std::byte>;

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string NodesText(const std::vector<int>& nodes) {
  return fmt::format("node{} {}", nodes.size() == 1 ? "" : "s", fmt::join(nodes, ","));
}

// Whether each of the nodes can take its even share.
bool CanBeEven(const std::vector<NodeRoom>& rooms, const MemoryPlace& place, uint64_t bytes) {
  return place.nodes.size() > 1 && rooms.size() == place.nodes.size() &&
         std::all_of(rooms.begin(), rooms.end(),
                     [&](const NodeRoom& room) { return room.Available() >= bytes / rooms.size(); });
}

// Whether memory can come from nowhere else anyway: then there is nothing to choose, and nothing to wait for
// that the host's own numbers do not know better (ZFS gives up its cache as well). A cpuset that leaves a
// process one of several nodes is no such case: the others' free memory is not its.
bool IsAllThereIs(const MemoryPlace& place) {
  auto nodes = ReadNumberList(place.root / "sys/devices/system/node/has_memory");
  if (!nodes) nodes = ReadStatusList(place.root, "Mems_allowed_list:");
  return nodes && !nodes->empty() && std::all_of(nodes->begin(), nodes->end(), [&](int node) {
           return std::find(place.nodes.begin(), place.nodes.end(), node) != place.nodes.end();
         });
}

// The nodes' room as soon as `bytes` fit, or else when the place's patience is at its end: a process that has
// just ended gives its memory back for seconds.
std::vector<NodeRoom> AwaitRoom(const MemoryPlace& place, uint64_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLookEvery{200};
  const auto begin = Clock::now();
  auto grew = begin;
  uint64_t most = 0;
  for (bool said = false;; said = true) {
    std::vector<NodeRoom> rooms = ReadNodeRooms(place.root, place.nodes);
    if (rooms.size() != place.nodes.size() || AvailableOn(rooms) >= bytes) return rooms;
    const auto now = Clock::now();
    if (AvailableOn(rooms) > most) grew = now;
    most = std::max(most, AvailableOn(rooms));
    if (now - begin >= place.patience || now - grew >= place.patience_without_more) return rooms;
    if (!said) {
      LogInfo(
          "{:.2f} GiB of weights do not fit {} yet: {}; waiting as long as more is being given back, {} s at "
          "most",
          Gib(bytes), NodesText(place.nodes), Describe(rooms), place.patience.count() / 1000);
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

// To wherever there is room when it is written.
absl::Status SpillPart(const MemoryPlace& place, const Part& part) {
  if (!place.required) return SetMemoryPolicy(part, MemoryPolicy::kLocal, {});
  return absl::ResourceExhaustedError(
      fmt::format("--pinning required: others took memory of {} while the weights were given theirs: {}; "
                  "expected room for "
                  "all weights: free memory there, or start workers one after the other",
                  NodesText(place.nodes), Describe(ReadNodeRooms(place.root, place.nodes))));
}

absl::Status MakeAll(const std::vector<Stripe>& stripes, const MemoryPlace& place, ThreadPool& pool) {
  std::vector<Part> parts;
  for (const Stripe& stripe : stripes) {
    for (size_t at = 0; at < stripe.pages.size(); at += kPartBytes)
      parts.push_back(stripe.pages.subspan(at, std::min(kPartBytes, stripe.pages.size() - at)));
  }
  PageMaker maker({.room = [&] { return AvailableOn(ReadNodeRooms(place.root, place.nodes)); },
                   .make =
                       [&](const Part& part) {
                         const absl::Status made = PopulatePages(part);
                         if (place.progress != nullptr) place.progress->AddPages(part.size());
                         return made;
                       },
                   .spill = [&](const Part& part) { return SpillPart(place, part); }});
  FirstError first_error;
  pool.Run(static_cast<int>(parts.size()),
           [&](int part, int) { first_error.Note(maker.Make(parts[static_cast<size_t>(part)])); });
  RETURN_IF_ERROR(first_error.status());
  if (maker.spilled() > 0) {
    LogWarning(
        "others took memory of {} meanwhile: {:.2f} GiB of the weights will lie elsewhere and be slower",
        NodesText(place.nodes), Gib(maker.spilled()));
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

absl::StatusOr<bool> FindRoom(const MemoryPlace& place, uint64_t bytes) {
  if (IsAllThereIs(place)) return false;
  const std::vector<NodeRoom> rooms = AwaitRoom(place, bytes);
  if (rooms.empty() || rooms.size() != place.nodes.size()) return false;
  if (AvailableOn(rooms) >= bytes) return true;
  const std::string lack = fmt::format("{:.2f} GiB of weights do not fit {}: {}", Gib(bytes),
                                       NodesText(place.nodes), Describe(rooms));
  if (place.required) {
    return absl::ResourceExhaustedError(
        fmt::format("--pinning required: {}; expected room for all of them: free memory there, more workers, "
                    "or a smaller "
                    "--format; with --pinning=preferred a part lies elsewhere and is slower",
                    lack));
  }
  LogWarning(
      "{}; a part of them will lie elsewhere and be slower; more workers, a smaller --format or free "
      "memory there would do",
      lack);
  return false;
}

absl::Status BindMemory(const std::vector<Part>& layers, const MemoryPlace& place, ThreadPool& pool) {
  if (place.nodes.empty() || layers.empty() || IsAllThereIs(place)) return absl::OkStatus();
  uint64_t bytes = 0;
  for (const Part& layer : layers) bytes += layer.size();
  // Where the kernel does not say what is free, nothing is bound: it might end this process.
  ASSIGN_OR_RETURN(const bool bind, FindRoom(place, bytes));
  const bool even = bind && CanBeEven(ReadNodeRooms(place.root, place.nodes), place, bytes);
  const std::vector<Stripe> stripes = PlanStripes(layers, place.nodes, even);
  for (size_t i = 0; i < stripes.size(); ++i) {
    const absl::Status set = SetMemoryPolicy(
        stripes[i].pages, bind ? MemoryPolicy::kBind : MemoryPolicy::kLocal, stripes[i].nodes);
    if (set.ok()) continue;
    // Nobody looks for room before those that were bound are written: they must not end this process.
    for (size_t before = 0; before < i; ++before)
      SetMemoryPolicy(stripes[before].pages, MemoryPolicy::kLocal, {}).IgnoreError();
    LogInfo("the weights cannot be bound to {} ({}): they lie where threads write them first",
            NodesText(place.nodes), std::string(set.message()));
    return absl::OkStatus();
  }
  return bind ? MakeAll(stripes, place, pool) : absl::OkStatus();
}

absl::Status CheckWhereTheyLie(const MemorySpans& weights, const MemoryPlace& place) {
  const double local = LocalShare(weights, place.nodes).value_or(1);
  if (place.nodes.empty() || local >= kLocalShareMin) return absl::OkStatus();
  const std::string found = fmt::format("{:.0f}% of the weights lie on {}, expected at least {:.0f}%: {}",
                                        100 * local, NodesText(place.nodes), 100 * kLocalShareMin,
                                        Describe(ReadNodeRooms(place.root, place.nodes)));
  if (place.required) {
    return absl::ResourceExhaustedError(
        fmt::format("--pinning required: {}; free memory there (numoe-expert-worker --preflight says what "
                    "holds it), or let "
                    "this process bind its memory (the capability SYS_NICE in containers)",
                    found));
  }
  LogWarning("{}; the others are slower to read; free memory there and start this worker again", found);
  return absl::OkStatus();
}

}  // namespace numoe::worker
