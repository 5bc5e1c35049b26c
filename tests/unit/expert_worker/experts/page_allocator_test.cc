// The order in which PageAllocator allocates when memory is scarce: it waits for the parts that other threads
// are allocating.
#include "expert_worker/experts/page_allocator.h"

#include <array>
#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

constexpr uint64_t kPart = 4096;

class PageAllocatorTest : public ::testing::Test {
 protected:
  absl::Span<std::byte> Part(size_t i) { return absl::MakeSpan(memory_).subspan(i * kPart, kPart); }
  std::array<std::byte, 8 * kPart> memory_;
  std::atomic<uint64_t> free_ = 2 * kPart;
  std::atomic<uint64_t> elsewhere_ = 0;
};

// Half of the first part is allocated: the free bytes lack that half already, and the whole part counts as in
// work.
TEST_F(PageAllocatorTest, APartThatSeemsNotToFitWaitsForThePartsInWork) {
  std::atomic<int> asked = 0;
  PageAllocator allocator({.free_bytes =
                               [&] {
                                 asked.fetch_add(1);
                                 return free_.load();
                               },
                           .allocate =
                               [&](const PageAllocator::Part& part) {
                                 const bool first = part.data() == memory_.data();
                                 free_.fetch_sub(kPart / 2);
                                 while (first && asked.load() < 2) std::this_thread::yield();
                                 free_.fetch_sub(kPart / 2);
                                 return absl::OkStatus();
                               },
                           .allocate_elsewhere =
                               [&](const PageAllocator::Part& part) {
                                 elsewhere_.fetch_add(part.size());
                                 return absl::OkStatus();
                               }});
  std::thread first([&] { EXPECT_TRUE(allocator.Allocate(Part(0)).ok()); });
  while (free_.load() == 2 * kPart) std::this_thread::yield();
  EXPECT_TRUE(allocator.Allocate(Part(1)).ok());
  first.join();
  EXPECT_EQ(elsewhere_.load(), 0u) << "there was room for both";
  EXPECT_EQ(allocator.bytes_elsewhere(), 0u);
  EXPECT_EQ(free_.load(), 0u);
}

TEST_F(PageAllocatorTest, APartThatDoesNotFitAndAllLaterOnesAreAllocatedElsewhere) {
  int allocated = 0;
  PageAllocator allocator(
      {.free_bytes = [&] { return free_.load(); },
       .allocate =
           [&](const PageAllocator::Part& part) {
             ++allocated;
             free_.fetch_sub(part.size());
             return absl::OkStatus();
           },
       .allocate_elsewhere = [](const PageAllocator::Part&) { return absl::OkStatus(); }});
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(allocator.Allocate(Part(i)).ok());
  EXPECT_EQ(allocated, 2);
  free_ = 100 * kPart;
  EXPECT_TRUE(allocator.Allocate(Part(3)).ok());
  EXPECT_EQ(allocator.bytes_elsewhere(), 2 * kPart);
}

TEST_F(PageAllocatorTest, AnErrorElsewhereIsReturned) {
  free_ = 0;
  PageAllocator allocator(
      {.free_bytes = [&] { return free_.load(); },
       .allocate = [](const PageAllocator::Part&) { return absl::OkStatus(); },
       .allocate_elsewhere =
           [](const PageAllocator::Part&) { return absl::ResourceExhaustedError("full"); }});
  EXPECT_EQ(allocator.Allocate(Part(0)).message(), "full");
}

}  // namespace
}  // namespace numoe::worker
