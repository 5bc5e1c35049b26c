// io_uring, if the kernel lets this process use it.
#include <sys/syscall.h>

#include "gtest/gtest.h"
#include "tests/support/forbidden_calls.h"
#include "tests/unit/common/weights/numbered_file.h"

namespace numoe {
namespace {

TEST(UringQueueTest, EveryReadComesBackOnceWithItsBytes) {
  for (const int depth : {1, 5}) {
    const auto queue = MakeUringQueue(depth);
    if (queue == nullptr) GTEST_SKIP() << "this kernel or container forbids io_uring";
    ExpectReads(*queue, depth);
  }
}

TEST(UringQueueTest, ErrorsAreResults) {
  const auto queue = MakeUringQueue(4);
  if (queue == nullptr) GTEST_SKIP() << "this kernel or container forbids io_uring";
  ExpectErrors(*queue);
}

TEST(UringQueueTest, WithoutIoUringThereAreThreads) {
  for (const int call : {SYS_io_uring_setup, SYS_io_uring_enter}) {
    WithoutSystemCall(call, [] {
      EXPECT_EQ(MakeUringQueue(4), nullptr);
      EXPECT_EQ(RangeReader({.depth = 4}).method(), "threads");
    });
  }
}

}  // namespace
}  // namespace numoe
