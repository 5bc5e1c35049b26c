// NodeRoom: how much memory a NUMA node could still give, and whether something fits on nodes.
//
// Free memory and what the kernel gives up for it: cached files, as far as they are on its lists of those
// (not what is locked or waits to be swapped), and half of what it keeps to find them again, less what it
// keeps free for itself. Shared memory (memfd, /dev/shm) is counted by the kernel among the cached files and
// is none of them: nothing gives it up. Memory that is bound to a node makes the kernel give up that node's
// cached files; where they are not enough it ends processes, so whoever binds looks here first. Reads
// /sys/devices/system/node and /proc/zoneinfo below a root
// ("/" but in tests). Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace numoe {

struct NodeRoom {
  int node = 0;        // OS number
  uint64_t total = 0;  // bytes, as the rest
  uint64_t free = 0;
  uint64_t files = 0;      // cached ones, that it can give up
  uint64_t reclaimed = 0;  // beside them: of the kernel's own, what it can give up
  uint64_t kept = 0;       // that it keeps free

  /// What the node can give without the kernel running short itself.
  uint64_t Available() const;
};

/// nullopt: the kernel does not say.
std::optional<NodeRoom> ReadNodeRoom(const std::filesystem::path& root, int node);
/// Of those nodes that the kernel tells of.
std::vector<NodeRoom> ReadNodeRooms(const std::filesystem::path& root, const std::vector<int>& nodes);

uint64_t AvailableOn(const std::vector<NodeRoom>& rooms);
/// "node 1 has 0.10 GiB free and 0.25 GiB in cached files that the kernel can give up, of 1.40 GiB"; several
/// nodes are added up.
std::string Describe(const std::vector<NodeRoom>& rooms);

}  // namespace numoe
