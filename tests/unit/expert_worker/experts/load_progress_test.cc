// The progress of a load, as numbers and as a log line.
#include "expert_worker/experts/load_progress.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

TEST(LoadProgressTest, BeforeItBeginsThereIsNothing) {
  const LoadProgress progress;
  EXPECT_EQ(progress.seconds(), 0);
  EXPECT_EQ(progress.bytes_total() + progress.bytes_done() + progress.moves(), 0u);
}

TEST(LoadProgressTest, TheLineSaysHowMuchIsRead) {
  LoadProgress progress;
  progress.Begin(2 * kGib);
  progress.Add(kGib, /*direct=*/true);
  progress.Add(kGib / 2, /*direct=*/false);
  EXPECT_THAT(progress.ToString(), ::testing::StartsWith("1.500 of 2.000 GiB read (75%), "));
  EXPECT_EQ(progress.bytes_done(), kGib + kGib / 2);
  EXPECT_EQ(progress.bytes_direct(), kGib);
  EXPECT_GT(progress.seconds(), 0);
}

TEST(LoadProgressTest, PagesCountAsMovesAndNotAsBytes) {
  LoadProgress progress;
  progress.AddPages(100);
  EXPECT_EQ(progress.moves(), 100u);
  EXPECT_EQ(progress.bytes_done(), 0u);
  progress.Begin(10);
  progress.Add(7, false);
  EXPECT_EQ(progress.moves(), 107u) << "it moves in both parts of the load";
}

TEST(LoadProgressTest, TheClockStopsAtTheEnd) {
  LoadProgress progress;
  progress.Begin(1);
  progress.Add(1, false);
  progress.Finish("a slice");
  const double seconds = progress.seconds();
  EXPECT_GT(seconds, 0);
  std::this_thread::yield();
  EXPECT_EQ(progress.seconds(), seconds);
}

TEST(LoadProgressTest, AnEmptyLoadDoesNotDivideByZero) {
  LoadProgress progress;
  progress.Begin(0);
  EXPECT_THAT(progress.ToString(),
              ::testing::StartsWith("0.000 of 0.000 GiB read (0%), 0.00 GiB/s, 0 s left"));
}

TEST(LoadProgressTest, ThreadsAddUp) {
  LoadProgress progress;
  progress.Begin(4000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) progress.Add(1, i % 2 == 0);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(progress.bytes_done(), 4000u);
  EXPECT_EQ(progress.bytes_direct(), 2000u);
}

}  // namespace
}  // namespace numoe::worker
