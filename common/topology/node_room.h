// NodeRoom: how much more memory can be allocated on a NUMA node, and whether something fits on nodes.
//
// That is the free memory and what the kernel would free on demand, minus what it keeps free for itself. On
// demand it frees the cached files on its lists of active and inactive files (locked pages and pages that
// wait for swap are not on these lists) and some of its reclaimable slab caches, of which half is counted
// here. The kernel's counter of cached files (FilePages) is not used, because it includes shared memory
// (memfd, /dev/shm), which the kernel cannot free. When memory is bound to a node, the kernel frees that
// node's cached files, and kills processes if these are not enough; so callers check here before they bind
// memory. Reads /sys/devices/system/node and /proc/zoneinfo below a root, which is "/" except in tests.
// Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace numoe {

struct NodeRoom {
  int node = 0;        // OS number
  uint64_t total = 0;  // in bytes, like the other members
  uint64_t free = 0;
  uint64_t files = 0;      // cached files that the kernel can free
  uint64_t reclaimed = 0;  // the kernel's own caches that it can free
  uint64_t kept = 0;       // what the kernel keeps free

  /// Returns the bytes that can be allocated on the node without the kernel itself running short.
  uint64_t Available() const;
};

/// Returns nullopt if the kernel does not tell.
std::optional<NodeRoom> ReadNodeRoom(const std::filesystem::path& root, int node);
/// Returns the rooms of `nodes`, without the nodes about which the kernel does not tell.
std::vector<NodeRoom> ReadNodeRooms(const std::filesystem::path& root, const std::vector<int>& nodes);

/// Returns the sum of the bytes that can be allocated on these nodes.
uint64_t AvailableOn(const std::vector<NodeRoom>& rooms);
/// Returns "node 1 has 0.10 GiB free and 0.25 GiB in cached files that the kernel can give up, of 1.40 GiB";
/// for several nodes, with the sums of the numbers.
std::string Describe(const std::vector<NodeRoom>& rooms);

}  // namespace numoe
