// The results of several threads become one status: the first error, or OK.
#include "common/base/first_error.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(FirstErrorTest, IsOkUntilSomethingFails) {
  FirstError first;
  first.Note(absl::OkStatus());
  EXPECT_TRUE(first.status().ok());
  first.Note(absl::DataLossError("damaged"));
  EXPECT_EQ(first.status(), absl::DataLossError("damaged"));
}

TEST(FirstErrorTest, KeepsTheFirstOfSeveral) {
  FirstError first;
  first.Note(absl::DataLossError("first"));
  first.Note(absl::InternalError("second"));
  first.Note(absl::OkStatus());
  EXPECT_EQ(first.status(), absl::DataLossError("first"));
}

TEST(FirstErrorTest, OneThreadsErrorStaysWhenOthersReportTheirs) {
  FirstError first;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&first, i] {
      first.Note(absl::InternalError(std::to_string(i)));
      const absl::Status seen = first.status();
      for (int round = 0; round < 1000; ++round) {
        first.Note(absl::InternalError("late"));
        EXPECT_EQ(first.status(), seen);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(first.status().ok());
}

}  // namespace
}  // namespace numoe
