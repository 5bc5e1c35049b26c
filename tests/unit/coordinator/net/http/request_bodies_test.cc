// The budget of request bodies, and when the allocator is told to return memory.
#include "coordinator/net/http/request_bodies.h"

#include "coordinator/net/http/http_limits.h"
#include "gtest/gtest.h"

namespace numoe::net {
namespace {

TEST(RequestBodiesTest, SharesGrowWithinTheBudgetAndAreGivenBack) {
  const auto bodies = std::make_shared<RequestBodies>(100);
  EXPECT_TRUE(bodies->HasRoom(0, 100));
  EXPECT_FALSE(bodies->HasRoom(0, 101));
  RequestBodies::Share first(bodies);
  EXPECT_TRUE(first.Grow(60));
  {
    RequestBodies::Share second(bodies);
    EXPECT_TRUE(second.Grow(10));
    EXPECT_FALSE(second.Grow(41));
    EXPECT_TRUE(second.Grow(40)) << "the bytes that it already has do not count twice";
    EXPECT_FALSE(bodies->HasRoom(0, 1));
  }
  EXPECT_TRUE(bodies->HasRoom(0, 40));
  first.Release();
  EXPECT_TRUE(bodies->HasRoom(0, 100));
}

TEST(RequestBodiesTest, OneKeysBodiesTakeAtMostHalf) {
  const auto bodies = std::make_shared<RequestBodies>(100);
  RequestBodies::Share first(bodies), second(bodies), other(bodies);
  first.BelongTo(1);
  second.BelongTo(1);
  other.BelongTo(2);
  EXPECT_TRUE(first.Grow(40));
  EXPECT_FALSE(second.Grow(11));
  EXPECT_FALSE(bodies->HasRoom(1, 11));
  EXPECT_TRUE(other.Grow(50));
  EXPECT_TRUE(second.Grow(10));
  first.Release();
  EXPECT_TRUE(bodies->HasRoom(1, 40));
}

TEST(RequestBodiesTest, MemoryIsReturnedOnceAfterLargeBodiesHaveEnded) {
  const auto bodies = std::make_shared<RequestBodies>(limits::kHttpBodiesBytesMax);
  { RequestBodies::Share(bodies).Grow(limits::kHttpLargeBodyBytes - 1); }
  EXPECT_FALSE(bodies->TrimMemory()) << "the body was small";
  {
    RequestBodies::Share large(bodies);
    large.Grow(limits::kHttpLargeBodyBytes);
    large.Release();
    EXPECT_FALSE(bodies->TrimMemory()) << "the memory for what was read is still in use";
  }
  EXPECT_TRUE(bodies->TrimMemory());
  EXPECT_FALSE(bodies->TrimMemory());
}

}  // namespace
}  // namespace numoe::net
