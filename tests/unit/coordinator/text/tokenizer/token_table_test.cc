// The flat table is compared with std::map, for tokens of every length around the eight bytes of a key.
#include "coordinator/text/tokenizer/token_table.h"

#include <map>
#include <random>

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

std::string RandomBytes(std::mt19937& random) {
  std::string bytes;
  // Few different bytes, including zero, so that many tokens share beginnings, ends and keys.
  for (size_t n = 1 + random() % 20; n > 0; --n) bytes += static_cast<char>(random() % 3);
  return bytes;
}

TEST(TokenTableTest, FindsAddedTokensAndNothingElse) {
  std::mt19937 random(1);
  TokenTable table(5000);
  std::map<std::string, TokenId> expected;
  for (TokenId id = 0; id < 5000; ++id) {
    const std::string bytes = RandomBytes(random);
    EXPECT_EQ(table.Add(bytes, id), expected.emplace(bytes, id).second);
  }
  EXPECT_EQ(table.size(), expected.size());
  for (const auto& [bytes, id] : expected) EXPECT_EQ(table.Find(bytes), id);
  int absent = 0;
  for (int i = 0; i < 50'000; ++i) {
    const std::string bytes = RandomBytes(random);
    const auto it = expected.find(bytes);
    EXPECT_EQ(table.Find(bytes), it == expected.end() ? kNoToken : it->second);
    absent += it == expected.end() ? 1 : 0;
  }
  EXPECT_GT(absent, 1000);
}

TEST(TokenTableTest, AnEmptyTableHasNothing) {
  const TokenTable table(0);
  EXPECT_EQ(table.Find("a"), kNoToken);
  EXPECT_EQ(table.Find(""), kNoToken);
}

TEST(TokenTableTest, LengthIsPartOfTheKey) {
  TokenTable table(4);
  EXPECT_TRUE(table.Add(std::string("a\0", 2), 1));
  EXPECT_EQ(table.Find("a"), kNoToken);
  EXPECT_EQ(table.Find(std::string("a\0\0", 3)), kNoToken);
  EXPECT_EQ(table.Find(std::string("a\0", 2)), 1);
}

}  // namespace
}  // namespace numoe::text
