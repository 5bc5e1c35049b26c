// The order in which pages are made where room is short: what others are making is waited for.
#include "expert_worker/experts/page_maker.h"

#include <array>
#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

constexpr uint64_t kPart = 4096;

class PageMakerTest : public ::testing::Test {
 protected:
  absl::Span<std::byte> Part(size_t i) { return absl::MakeSpan(memory_).subspan(i * kPart, kPart); }
  std::array<std::byte, 8 * kPart> memory_;
  std::atomic<uint64_t> free_ = 2 * kPart;
  std::atomic<uint64_t> spilled_ = 0;
};

// Half of the first part's pages are made: they are missing in the room, and the part counts as in work.
TEST_F(PageMakerTest, APartThatSeemsNotToFitWaitsForThoseInWork) {
  std::atomic<int> asked = 0;
  PageMaker maker({.room =
                       [&] {
                         asked.fetch_add(1);
                         return free_.load();
                       },
                   .make =
                       [&](const PageMaker::Part& part) {
                         const bool first = part.data() == memory_.data();
                         free_.fetch_sub(kPart / 2);
                         while (first && asked.load() < 2) std::this_thread::yield();
                         free_.fetch_sub(kPart / 2);
                         return absl::OkStatus();
                       },
                   .spill =
                       [&](const PageMaker::Part& part) {
                         spilled_.fetch_add(part.size());
                         return absl::OkStatus();
                       }});
  std::thread first([&] { EXPECT_TRUE(maker.Make(Part(0)).ok()); });
  while (free_.load() == 2 * kPart) std::this_thread::yield();
  EXPECT_TRUE(maker.Make(Part(1)).ok());
  first.join();
  EXPECT_EQ(spilled_.load(), 0u) << "there was room for both";
  EXPECT_EQ(maker.spilled(), 0u);
  EXPECT_EQ(free_.load(), 0u);
}

TEST_F(PageMakerTest, WhatDoesNotFitIsSpilledAndAllThatComesLater) {
  int made = 0;
  PageMaker maker({.room = [&] { return free_.load(); },
                   .make =
                       [&](const PageMaker::Part& part) {
                         ++made;
                         free_.fetch_sub(part.size());
                         return absl::OkStatus();
                       },
                   .spill = [](const PageMaker::Part&) { return absl::OkStatus(); }});
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(maker.Make(Part(i)).ok());
  EXPECT_EQ(made, 2);
  free_ = 100 * kPart;
  EXPECT_TRUE(maker.Make(Part(3)).ok());
  EXPECT_EQ(maker.spilled(), 2 * kPart);
}

TEST_F(PageMakerTest, ASpillThatMustNotBeEndsTheLoad) {
  free_ = 0;
  PageMaker maker({.room = [&] { return free_.load(); },
                   .make = [](const PageMaker::Part&) { return absl::OkStatus(); },
                   .spill = [](const PageMaker::Part&) { return absl::ResourceExhaustedError("full"); }});
  EXPECT_EQ(maker.Make(Part(0)).message(), "full");
}

}  // namespace
}  // namespace numoe::worker
