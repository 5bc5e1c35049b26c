// Helper threads that read ranges of a file.
#include "gtest/gtest.h"
#include "tests/unit/common/weights/numbered_file.h"

namespace numoe {
namespace {

TEST(ThreadQueueTest, EveryReadComesBackOnceWithItsBytes) {
  for (const int depth : {1, 5}) ExpectReads(*MakeThreadQueue(depth), depth);
}

TEST(ThreadQueueTest, ErrorsAreResults) { ExpectErrors(*MakeThreadQueue(4)); }

}  // namespace
}  // namespace numoe
