#include "common/topology/node_room.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "common/base/check.h"

namespace numoe {
namespace {

// An estimate of what the kernel keeps free on a node, used if the kernel does not tell (HighWatermarks): it
// is usually 0.1 to 0.3 % of the node, and on small nodes a few megabytes for the kernel's huge pages.
constexpr uint64_t kKeptShare = 200;
constexpr uint64_t kKeptBytesMin = uint64_t{16} << 20;

// Parses "Node 0 MemFree:  1234 kB". If the line has the key, sets `value` in bytes and returns true.
bool Read(const std::string& line, const char* key, uint64_t& value) {
  const std::string words = fmt::format(" {}:", key);
  const size_t at = line.find(words);
  if (at == std::string::npos) return false;
  value = std::strtoull(line.c_str() + at + words.size(), nullptr, 10) << 10;
  return true;
}

// Returns the bytes that the kernel tries to keep free on the node, the sum of its zones' high watermarks;
// nullopt if the kernel does not tell.
std::optional<uint64_t> HighWatermarks(const std::filesystem::path& root, int node) {
  std::ifstream file(root / "proc/zoneinfo");
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  NUMOE_CHECK(std::has_single_bit(page)) << page;
  std::optional<uint64_t> sum;
  bool mine = false;
  for (std::string line; std::getline(file, line);) {
    int of_node = 0;
    uint64_t pages = 0;
    if (std::sscanf(line.c_str(), "Node %d, zone", &of_node) == 1) mine = of_node == node;
    // "        high     12"; a line with "high:" is about a CPU's own list of pages.
    if (mine && std::sscanf(line.c_str(), " high %" SCNu64, &pages) == 1)
      sum = sum.value_or(0) + pages * page;
  }
  return sum;
}

}  // namespace

uint64_t NodeRoom::Available() const {
  const uint64_t all = free + files + reclaimed;
  return all - std::min(all, kept);
}

std::optional<NodeRoom> ReadNodeRoom(const std::filesystem::path& root, int node) {
  std::ifstream file(root / fmt::format("sys/devices/system/node/node{}/meminfo", node));
  NodeRoom room{.node = node};
  uint64_t active = 0, inactive = 0, of_kernel = 0;
  for (std::string line; std::getline(file, line);) {
    [[maybe_unused]] const bool known =
        Read(line, "MemTotal", room.total) || Read(line, "MemFree", room.free) ||
        Read(line, "Active(file)", active) || Read(line, "Inactive(file)", inactive) ||
        Read(line, "SReclaimable", of_kernel);
  }
  if (room.total == 0) return std::nullopt;
  room.files = active + inactive;
  room.reclaimed = of_kernel / 2;
  room.kept = HighWatermarks(root, node).value_or(room.total / kKeptShare + kKeptBytesMin);
  return room;
}

std::vector<NodeRoom> ReadNodeRooms(const std::filesystem::path& root, const std::vector<int>& nodes) {
  std::vector<NodeRoom> rooms;
  for (const int node : nodes) {
    if (const auto room = ReadNodeRoom(root, node)) rooms.push_back(*room);
  }
  return rooms;
}

uint64_t AvailableOn(const std::vector<NodeRoom>& rooms) {
  uint64_t available = 0;
  for (const NodeRoom& room : rooms) available += room.Available();
  return available;
}

std::string Describe(const std::vector<NodeRoom>& rooms) {
  std::vector<int> nodes;
  NodeRoom all;
  for (const NodeRoom& room : rooms) {
    nodes.push_back(room.node);
    all.total += room.total;
    all.free += room.free;
    all.files += room.files + room.reclaimed;
  }
  const auto gib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  const bool one = nodes.size() == 1;
  return fmt::format(
      "node{} {} {} {:.2f} GiB free and {:.2f} GiB in cached files that the kernel can give up, "
      "of {:.2f} GiB",
      one ? "" : "s", fmt::join(nodes, ","), one ? "has" : "have", gib(all.free), gib(all.files),
      gib(all.total));
}

}  // namespace numoe
