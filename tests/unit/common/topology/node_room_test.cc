// How much can be allocated on nodes, computed from the kernel's numbers in invented file trees.
#include "common/topology/node_room.h"

#include <unistd.h>

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

class NodeRoomTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kGib = uint64_t{1} << 30;

  // Writes the files of a node; all sizes are in GiB.
  void WriteNode(int node, int total, int free, int files, int shared) {
    const std::filesystem::path folder =
        folder_.path() / "sys/devices/system/node" / ("node" + std::to_string(node));
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / "meminfo");
    for (const auto& [key, gib] : {std::pair{"MemTotal", total},
                                   {"MemFree", free},
                                   {"Active", 50},
                                   {"Inactive", 50},
                                   {"Active(anon)", 9},
                                   {"Inactive(anon)", shared},
                                   {"Active(file)", (files - shared) / 2},
                                   {"Inactive(file)", (files - shared) / 2},
                                   {"Mlocked", 5},
                                   {"FilePages", files + 5},
                                   {"Shmem", shared},
                                   {"SReclaimable", 2}})
      file << "Node " << node << " " << key << ":  " << (int64_t{gib} << 20) << " kB\n";
  }
  TemporaryFolder folder_;
};

TEST_F(NodeRoomTest, SharedMemoryIsNotAvailable) {
  WriteNode(0, 100, 10, 40, 0);
  WriteNode(1, 100, 10, 40, 40);
  const std::vector<NodeRoom> rooms = ReadNodeRooms(folder_.path(), {0, 1, 2});
  ASSERT_EQ(rooms.size(), 2u) << "the kernel does not tell about node 2";
  EXPECT_EQ(rooms[0].files, 40 * kGib);
  EXPECT_EQ(rooms[1].files, 0u);
  // 10 are free, 40 are in files, and half of 2 in the kernel's caches; the kernel keeps less than 1 for
  // itself.
  EXPECT_LT(rooms[0].Available(), 51 * kGib);
  EXPECT_GT(rooms[0].Available(), 50 * kGib);
  EXPECT_LT(rooms[1].Available(), 11 * kGib);
  EXPECT_EQ(AvailableOn(rooms), rooms[0].Available() + rooms[1].Available());
}

TEST_F(NodeRoomTest, TheKernelKeepsTheHighWatermarksOfItsZonesFree) {
  WriteNode(0, 100, 10, 0, 0);
  WriteNode(1, 100, 10, 0, 0);
  std::filesystem::create_directories(folder_.path() / "proc");
  std::ofstream(folder_.path() / "proc/zoneinfo")
      << "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 1\n  pages free     2816\n"
         "        boost    0\n        min      6\n        low      9\n        high     12\n"
         "  pagesets\n    cpu: 0\n              count: 0\n              high:  14\n              batch: 1\n"
         "Node 0, zone   Normal\n  pages free     2816\n        high     1000\n"
         "Node 1, zone   Normal\n  pages free     2816\n        high     77\n";
  const uint64_t page = static_cast<uint64_t>(getpagesize());
  EXPECT_EQ(ReadNodeRoom(folder_.path(), 0)->Available(), 11 * kGib - 1012 * page);
  EXPECT_EQ(ReadNodeRoom(folder_.path(), 1)->kept, 77 * page);
}

TEST_F(NodeRoomTest, AFullNodeHasNothingAvailable) {
  WriteNode(0, 100, 0, 0, 0);
  NodeRoom room = *ReadNodeRoom(folder_.path(), 0);
  room.reclaimed = 0;
  EXPECT_EQ(room.Available(), 0u);
}

TEST_F(NodeRoomTest, TheDescriptionNamesNodesAndSums) {
  WriteNode(0, 100, 10, 40, 0);
  WriteNode(1, 100, 10, 40, 40);
  EXPECT_EQ(
      Describe(ReadNodeRooms(folder_.path(), {1})),
      "node 1 has 10.00 GiB free and 1.00 GiB in cached files that the kernel can give up, of 100.00 GiB");
  EXPECT_THAT(Describe(ReadNodeRooms(folder_.path(), {0, 1})),
              ::testing::HasSubstr("nodes 0,1 have 20.00 GiB free"));
}

}  // namespace
}  // namespace numoe
