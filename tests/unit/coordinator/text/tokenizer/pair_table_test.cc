// The flat table of merges is compared with std::map.
#include "coordinator/text/tokenizer/pair_table.h"

#include <map>
#include <random>

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

TEST(PairTableTest, FindsTheFirstMergeOfEveryPairAndNothingElse) {
  std::mt19937 random(1);
  const auto id = [&] { return static_cast<TokenId>(random() % 100); };
  std::vector<Merge> merges;
  std::map<std::pair<TokenId, TokenId>, Merge> expected;
  for (int32_t rank = 0; rank < 6000; ++rank) {
    merges.push_back({id(), id(), rank, id()});
    expected.emplace(std::pair(merges.back().left, merges.back().right), merges.back());
  }
  ASSERT_LT(expected.size(), merges.size()) << "some pairs must occur twice";
  const PairTable table(merges);
  for (TokenId left = 0; left < 100; ++left) {
    for (TokenId right = 0; right < 100; ++right) {
      const Merge& found = table.Find(left, right);
      const auto it = expected.find({left, right});
      ASSERT_EQ(found.rank, it == expected.end() ? kNoMerge : it->second.rank);
      if (it != expected.end()) {
        ASSERT_EQ(found.merged, it->second.merged);
      }
    }
  }
}

TEST(PairTableTest, AnEmptyTableFindsNothing) { EXPECT_EQ(PairTable({}).Find(0, 0).rank, kNoMerge); }

}  // namespace
}  // namespace numoe::text
