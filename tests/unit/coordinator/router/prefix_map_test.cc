// Which beginnings are remembered, for which backend, and which are removed when the map is full.
#include "coordinator/router/prefix_map.h"

#include <numeric>
#include <random>

#include "gtest/gtest.h"

namespace numoe::router {
namespace {

bool All(int) { return true; }

std::vector<uint64_t> Marks(uint64_t first, size_t count) {
  std::vector<uint64_t> marks(count);
  std::iota(marks.begin(), marks.end(), first);
  return marks;
}

TEST(PrefixMap, TheLongestKnownBeginningIsFound) {
  PrefixMap map(100);
  EXPECT_FALSE(map.Find(Marks(1, 5), All).has_value());
  map.Remember(Marks(1, 3), 0);
  const auto found = map.Find(Marks(1, 5), All);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->backend, 0);
  EXPECT_EQ(found->marks, 3u);
  EXPECT_TRUE(found->end) << "the earlier prompt ended there";
  EXPECT_FALSE(map.Find(Marks(1, 2), All)->end);
}

TEST(PrefixMap, ABackendThatCannotBeUsedIsSkipped) {
  PrefixMap map(100);
  map.Remember(Marks(1, 5), 1);
  map.Remember(Marks(1, 2), 0);  // another backend got its beginning later
  EXPECT_EQ(map.Find(Marks(1, 5), All)->backend, 1);
  const auto found = map.Find(Marks(1, 5), [](int backend) { return backend == 0; });
  EXPECT_EQ(found->backend, 0);
  EXPECT_EQ(found->marks, 2u);
  EXPECT_EQ(map.size_of(0), 2u);
  EXPECT_EQ(map.size_of(1), 3u);
}

TEST(PrefixMap, AForgottenBackendHasNoMarks) {
  PrefixMap map(100);
  map.Remember(Marks(1, 5), 0);
  map.Remember(Marks(100, 4), 1);
  map.Forget(0);
  EXPECT_FALSE(map.Find(Marks(1, 5), All).has_value());
  EXPECT_EQ(map.size(), 4u);
  EXPECT_EQ(map.size_of(0), 0u);
}

TEST(PrefixMap, TheLeastRecentlyUsedAreRemovedAndOfAPromptItsEndFirst) {
  PrefixMap map(10);
  map.Remember(Marks(1, 4), 0);
  map.Remember(Marks(100, 4), 0);
  map.Remember(Marks(1, 4), 0);
  map.Remember(Marks(200, 4), 0);
  EXPECT_EQ(map.size(), 10u);
  EXPECT_EQ(map.Find(Marks(1, 4), All)->marks, 4u);
  EXPECT_EQ(map.Find(Marks(100, 4), All)->marks, 2u);
}

TEST(PrefixMap, IsBoundedAndCountsCorrectly) {
  std::mt19937_64 random(7);
  PrefixMap map(500);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t first = random() % 2'000;
    map.Remember(Marks(first, random() % 30), static_cast<int>(random() % 3));
    if (random() % 997 == 0) map.Forget(static_cast<int>(random() % 3));
    ASSERT_LE(map.size(), 500u);
    ASSERT_EQ(map.size_of(0) + map.size_of(1) + map.size_of(2), map.size());
  }
}

}  // namespace
}  // namespace numoe::router
