// Kept responses: one owner's are nobody else's, and what is kept stays within its limits.
#include "coordinator/api/response_store.h"

#include <random>

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(ResponseStoreTest, OneOwnersAreNobodyElses) {
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

TEST(ResponseStoreTest, TheOldestGo) {
  ResponseStore store(2, 1 << 20);
  store.Put(1, "a", {"1", ""});
  store.Put(1, "b", {"2", ""});
  store.Put(1, "a", {"3", ""});  // makes it the newest
  store.Put(1, "c", {"4", ""});
  EXPECT_FALSE(store.Get(1, "b"));
  EXPECT_EQ(store.Get(1, "a")->response, "3");
  EXPECT_EQ(store.Get(1, "c")->response, "4");
}

TEST(ResponseStoreTest, BytesAreBounded) {
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
  EXPECT_EQ(store.bytes(), 0u) << "what is counted is what is there";
}

}  // namespace
}  // namespace numoe
