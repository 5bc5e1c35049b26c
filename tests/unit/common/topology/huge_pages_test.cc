// Reserved huge pages: what is reported about invented machines, and memory in real huge pages if this
// process may reserve them.
#include "common/topology/huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "common/topology/node_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HugePagesTest : public ::testing::Test {
 protected:
  void WritePool(int node, const std::string& size, int free, int total) {
    const std::string folder = "sys/devices/system/node/node" + std::to_string(node) + "/hugepages/" + size;
    folder_.WriteLine(folder + "/free_hugepages", std::to_string(free));
    folder_.WriteLine(folder + "/nr_hugepages", std::to_string(total));
  }
  absl::Status Require(HugePages pages, uint64_t bytes, const std::vector<int>& nodes) {
    return RequireHugePages(folder_.path(), pages, bytes, nodes);
  }
  TemporaryFolder folder_;
};

TEST_F(HugePagesTest, NamesCanBeParsed) {
  for (const HugePages pages : {HugePages::kTransparent, HugePages::k2M, HugePages::k1G})
    EXPECT_EQ(*ParseHugePages(HugePagesName(pages)), pages);
  EXPECT_THAT(ParseHugePages("4M").status().ToString(), AllOf(HasSubstr("4M"), HasSubstr("1G")));
}

TEST_F(HugePagesTest, OnlyThePagesOnTheWorkersNodesCount) {
  WritePool(0, "hugepages-2048kB", 12, 20);
  WritePool(1, "hugepages-2048kB", 100, 100);
  WritePool(1, "hugepages-1048576kB", 3, 3);
  EXPECT_TRUE(Require(HugePages::k2M, 24 << 20, {0}).ok());
  EXPECT_TRUE(Require(HugePages::k2M, uint64_t{224} << 20, {0, 1}).ok());
  EXPECT_TRUE(Require(HugePages::k1G, uint64_t{3} << 30, {1}).ok());
  const absl::Status missing = Require(HugePages::k2M, (24 << 20) + 1, {0});
  EXPECT_EQ(missing.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(missing.ToString(),
              AllOf(HasSubstr("13 pages of 2M are needed, but only 12 are free (12 of 20 on node 0);"),
                    HasSubstr("echo 21 > /sys/devices/system/node/node0/hugepages/hugepages-2048kB")));
  EXPECT_THAT(Require(HugePages::k1G, 1, {0}).ToString(), HasSubstr("the kernel has none on nodes 0"));
}

TEST_F(HugePagesTest, TheCgroupsLimitCounts) {
  WritePool(0, "hugepages-2048kB", 20, 20);
  folder_.WriteLine("sys/fs/cgroup/hugetlb.2MB.max", "8388608");
  folder_.WriteLine("sys/fs/cgroup/hugetlb.2MB.current", "2097152");
  EXPECT_TRUE(Require(HugePages::k2M, 6 << 20, {0}).ok());
  EXPECT_THAT(Require(HugePages::k2M, 7 << 20, {0}).ToString(),
              AllOf(HasSubstr("8388608"), HasSubstr("hugetlb.2MB.max"), HasSubstr("hugepages-2Mi")));
  folder_.WriteLine("sys/fs/cgroup/hugetlb.2MB.max", "max");
  folder_.WriteLine("sys/fs/cgroup/hugetlb.2MB.limit_in_bytes",
                    "8388608");  // the file of version 1
  folder_.WriteLine("sys/fs/cgroup/hugetlb.2MB.usage_in_bytes", "2097152");
  EXPECT_THAT(Require(HugePages::k2M, 7 << 20, {0}).ToString(), HasSubstr("hugetlb.2MB.limit_in_bytes"));
  std::filesystem::remove(folder_.path() / "sys/fs/cgroup/hugetlb.2MB.limit_in_bytes");
  EXPECT_TRUE(Require(HugePages::k2M, 7 << 20, {0}).ok());
}

// Expects that a second mapping reads what the first one writes, and that the memory cannot shrink.
void ExpectShared(const NodeMemory& memory) {
  ASSERT_GE(memory.fd(), 0);
  struct stat info {};
  ASSERT_EQ(fstat(memory.fd(), &info), 0);
  ASSERT_GE(static_cast<size_t>(info.st_size), memory.size());
  EXPECT_NE(ftruncate(memory.fd(), 0), 0);
  memory.data()[memory.size() - 1] = std::byte{42};
  void* const other = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, memory.fd(), 0);
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_EQ(static_cast<const std::byte*>(other)[memory.size() - 1], std::byte{42});
  munmap(other, static_cast<size_t>(info.st_size));
}

// Seals the memory, and expects that only the existing mapping can be used to write: nothing that can be done
// with a descriptor changes the bytes.
void ExpectSealed(const NodeMemory& memory) {
  const absl::Status sealed = memory.SealContent();
  ASSERT_TRUE(sealed.ok()) << sealed;
  struct stat info {};
  ASSERT_EQ(fstat(memory.fd(), &info), 0);
  const auto bytes = static_cast<size_t>(info.st_size);
  memory.data()[0] = std::byte{43};  // the owner may still write
  EXPECT_EQ(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  const char byte = 1;
  EXPECT_EQ(pwrite(memory.fd(), &byte, 1, 0), -1);
  EXPECT_NE(fallocate(memory.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  void* const read = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory.fd(), 0);
  ASSERT_NE(read, MAP_FAILED);
  EXPECT_NE(mprotect(read, bytes, PROT_READ | PROT_WRITE), 0);
  const int again = open(("/proc/self/fd/" + std::to_string(memory.fd())).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(again, 0);
  EXPECT_EQ(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
  close(again);
  EXPECT_EQ(static_cast<const std::byte*>(read)[0], std::byte{43});
  munmap(read, bytes);
  EXPECT_NE(fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "nor may a seal be added";
}

TEST_F(HugePagesTest, SharedMemoryCanBeMappedByItsDescriptorAndSealed) {
  absl::StatusOr<NodeMemory> memory = NodeMemory::Allocate((3 << 20) + 17, {.shared = true});
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % (2 << 20), 0u);
  EXPECT_EQ(memory->data()[3 << 20], std::byte{0});
  ExpectShared(*memory);
  NodeMemory moved = *std::move(memory);
  ExpectShared(moved);
  ExpectSealed(moved);
  EXPECT_EQ(NodeMemory::Allocate(100)->fd(), -1);
}

// Reserves pages until it is destroyed, if the kernel lets this process do so.
class ReservedPages {
 public:
  explicit ReservedPages(uint64_t pages) : before_(Read("nr_hugepages")) {
    Set(before_ + pages);
    enough_ = Read("free_hugepages") >= pages;
  }
  ~ReservedPages() { Set(before_); }
  bool enough() const { return enough_; }

 private:
  static constexpr char kFolder[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  static uint64_t Read(const std::string& name) {
    uint64_t value = 0;
    std::ifstream(kFolder + name) >> value;
    return value;
  }
  static void Set(uint64_t pages) { std::ofstream(std::string(kFolder) + "nr_hugepages") << pages; }

  const uint64_t before_;
  bool enough_ = false;
};

TEST_F(HugePagesTest, ReservedPagesServePrivateAndSharedMemory) {
  constexpr uint64_t kBytes = (uint64_t{3} << 20) + 17;  // two pages
  const ReservedPages pages(4);
  if (!pages.enough()) GTEST_SKIP() << "this process cannot reserve huge pages";
  for (const bool shared : {false, true}) {
    const absl::StatusOr<NodeMemory> memory =
        NodeMemory::Allocate(kBytes, {.pages = HugePages::k2M, .shared = shared});
    ASSERT_TRUE(memory.ok()) << memory.status();
    const absl::Status made = PopulatePages(memory->bytes());
    ASSERT_TRUE(made.ok()) << made;
    EXPECT_EQ(memory->data()[kBytes - 1], std::byte{0});
    std::memset(memory->data(), 7, kBytes);
    EXPECT_EQ(HugePageShare({memory->bytes()}), 1.0);
    EXPECT_TRUE(NodeShares({memory->bytes()}).has_value());
    if (shared) ExpectShared(*memory);
    if (shared) ExpectSealed(*memory);
  }
  const absl::StatusOr<NodeMemory> more = NodeMemory::Allocate(uint64_t{1} << 40, {.pages = HugePages::k2M});
  EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(more.status().ToString(), HasSubstr("pages of 2M"));
}

}  // namespace
}  // namespace numoe
