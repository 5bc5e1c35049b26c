// Tries of the remainders of tokens, and walks over them.
#include "coordinator/text/grammar/token_trie.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text::grammar {
namespace {

// Writes the nodes on one line: byte, depth, end of the subtree, and tokens.
std::string Drawn(const TokenTrie& trie) {
  std::string out;
  for (size_t n = 1; n + 1 < trie.nodes.size(); ++n) {
    const TokenTrie::Node& node = trie.nodes[n];
    out += std::string(1, static_cast<char>(node.byte)) + std::to_string(node.depth) + "<" +
           std::to_string(node.end);
    for (int32_t t = node.first_token; t < trie.nodes[n + 1].first_token; ++t)
      out += "," + std::to_string(trie.tokens[static_cast<size_t>(t)]);
    out += " ";
  }
  return out;
}

TEST(TokenTrieTest, OneNodeForEachBeginning) {
  EXPECT_TRUE(TokenTrie::Build({}).empty());
  EXPECT_EQ(Drawn(TokenTrie::Build({{"ab", 1}, {"b", 2}, {"a", 3}, {"abd", 4}, {"ac", 5}})),
            "a1<5,3 b2<4,1 d3<4,4 c2<5,5 b1<6,2 ");
  EXPECT_EQ(Drawn(TokenTrie::Build({{"abc", 7}})), "a1<4 b2<4 c3<4,7 ");
}

TEST(TokenTrieTest, EqualBytesShareANode) {
  const TokenTrie trie = TokenTrie::Build({{"x", 1, 1}, {"x", 2, 3}});
  EXPECT_EQ(trie.nodes.size(), 3u);
  EXPECT_THAT(trie.tokens, ::testing::UnorderedElementsAre(1, 2));
  EXPECT_EQ(trie.nodes[2].first_token, 2);
}

TEST(TokenTrieTest, AnEmptyRemainderBelongsToTheRoot) {
  const TokenTrie trie = TokenTrie::Build({{"", 9}, {"a", 8}});
  EXPECT_THAT(trie.tokens, ::testing::ElementsAre(9, 8));
  EXPECT_EQ(trie.nodes[1].first_token, 1) << "the root has one token";
}

TEST(TokenTrieTest, AWalkVisitsTheAcceptedNodesAndChangesNothing) {
  const auto grammar = Compiled(Kind::kRegex, "ab(cd)*");
  ASSERT_NE(grammar, nullptr);
  const TokenTrie trie = TokenTrie::Build({{"a", 1}, {"ab", 2}, {"abcd", 3}, {"abce", 4}, {"b", 5}});
  Pushdown machine(&grammar->program());
  const size_t frames = machine.frames().size();
  WalkScratch scratch;
  std::vector<TokenId> accepted;
  const auto accept = [&](int32_t first, int32_t end) {
    accepted.insert(accepted.end(), trie.tokens.begin() + first, trie.tokens.begin() + end);
  };
  EXPECT_TRUE(WalkTrie(machine, machine.Start(), absl::MakeConstSpan(trie.nodes), scratch, accept));
  EXPECT_THAT(accepted, ::testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(machine.frames().size(), frames);
}

}  // namespace
}  // namespace numoe::text::grammar
