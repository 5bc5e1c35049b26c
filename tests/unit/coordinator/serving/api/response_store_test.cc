// Stored responses: only their owner can read them, and their number and size stay within the limits.
#include "coordinator/serving/api/response_store.h"

#include <random>

#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

TEST(ResponseStoreTest, ResponsesBelongToOneOwner) {
  ResponseStore store;
  store.Put(1, "a", {"{}", "[]"});
  EXPECT_EQ(store.Get(1, "a")->response, "{}");
  EXPECT_EQ(store.Get(1, "a")->input, "[]");
  EXPECT_FALSE(store.Get(2, "a"));
  EXPECT_FALSE(store.Remove(2, "a"));
  EXPECT_TRUE(store.Remove(1, "a"));
  EXPECT_FALSE(store.Get(1, "a"));
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(ResponseStoreTest, TheOldestResponsesAreDropped) {
  ResponseStore store(2, 1 << 20);
  store.Put(1, "a", {"1", ""});
  store.Put(1, "b", {"2", ""});
  store.Put(1, "a", {"3", ""});  // becomes the newest
  store.Put(1, "c", {"4", ""});
  EXPECT_FALSE(store.Get(1, "b"));
  EXPECT_EQ(store.Get(1, "a")->response, "3");
  EXPECT_EQ(store.Get(1, "c")->response, "4");
}

TEST(ResponseStoreTest, TheOwnerWithTheMostLosesItsOldest) {
  ResponseStore store(1000, 10'000);
  store.Put(1, "small", {"{}", ""});
  for (int i = 0; i < 20; ++i) store.Put(2, std::to_string(i), {std::string(1'500, 'x'), ""});
  EXPECT_TRUE(store.Get(1, "small")) << "the oldest of all, but another owner's";
  EXPECT_FALSE(store.Get(2, "0"));
  EXPECT_TRUE(store.Get(2, "19"));
}

TEST(ResponseStoreTest, ResponsesInProgressAreKept) {
  ResponseStore store(3, 1 << 20);
  store.Put(1, "running", {"1", "", true});
  for (const char* id : {"a", "b", "c"}) store.Put(1, id, {"2", ""});
  EXPECT_TRUE(store.Get(1, "running"));
  EXPECT_FALSE(store.Get(1, "a"));
  store.Put(1, "running", {"3", ""});  // completes it
  for (const char* id : {"d", "e", "f"}) store.Put(1, id, {"4", ""});
  EXPECT_FALSE(store.Get(1, "running"));
  for (const char* id : {"d", "e", "f"}) store.Remove(1, id);
  EXPECT_EQ(store.bytes(), 0u);
}

// Also if an owner has nothing except responses in progress.
TEST(ResponseStoreTest, ResponsesInProgressCountForTheirOwner) {
  constexpr size_t kBytesMax = 100'000;
  ResponseStore store(1000, kBytesMax);
  EXPECT_TRUE(store.Put(1, "others", {std::string(10'000, 'x'), ""}));
  int kept = 0;
  for (int i = 0; i < 20; ++i) kept += store.Put(2, std::to_string(i), {std::string(9'000, 'x'), "", true});
  EXPECT_EQ(kept, 5) << "half of the room";
  EXPECT_TRUE(store.Get(1, "others"));
  for (int i = 0; i < kept; ++i)
    EXPECT_TRUE(store.Get(2, std::to_string(i))) << "none was dropped for a later one";
  EXPECT_TRUE(store.Put(3, "third", {std::string(30'000, 'x'), "", true}));
  EXPECT_TRUE(store.Put(4, "fourth", {std::string(20'000, 'x'), ""}));
  EXPECT_LE(store.bytes(), kBytesMax);
  EXPECT_FALSE(store.Get(2, "0")) << "the oldest response of the owner above its share";
  EXPECT_TRUE(store.Get(1, "others") && store.Get(4, "fourth"));
}

TEST(ResponseStoreTest, ManySmallResponsesDoNotDropAnothersLargeOne) {
  ResponseStore store(10, 100'000);
  store.Put(1, "large", {std::string(30'000, 'x'), ""});
  for (int i = 0; i < 20; ++i) store.Put(2, std::to_string(i), {"{}", ""});
  EXPECT_TRUE(store.Get(1, "large"));
  EXPECT_TRUE(store.Get(2, "19"));
}

TEST(ResponseStoreTest, BytesAreLimited) {
  constexpr size_t kBytesMax = 10'000;
  ResponseStore store(1000, kBytesMax);
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const std::string id = std::to_string(random() % 40);
    if (random() % 8 == 0) {
      store.Remove(1, id);
    } else {
      store.Put(1, id, {std::string(random() % 3000, 'x'), std::string(random() % 3000, 'y')});
    }
    ASSERT_LE(store.bytes(), kBytesMax);
  }
  store.Put(1, "huge", {std::string(kBytesMax, 'x'), ""});
  EXPECT_FALSE(store.Get(1, "huge"));
  for (int i = 0; i < 40; ++i) store.Remove(1, std::to_string(i));
  EXPECT_EQ(store.bytes(), 0u) << "the counted bytes are those of stored responses";
}

}  // namespace
}  // namespace numoe::serving
