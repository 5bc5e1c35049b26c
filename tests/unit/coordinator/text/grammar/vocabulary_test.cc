// The trie of a vocabulary and the summaries of its subtrees.
#include "coordinator/text/grammar/vocabulary.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

std::shared_ptr<const GrammarVocabulary> Built(std::vector<std::string_view> tokens,
                                               std::vector<TokenId> end = {}) {
  return GrammarVocabulary::Build(tokens, end);
}

// Returns the tokens below the node for `bytes`.
std::vector<TokenId> Below(const GrammarVocabulary& vocabulary, std::string_view bytes) {
  int32_t at = 0;
  for (const char byte : bytes) {
    int32_t child = at + 1;
    const int32_t end = vocabulary.nodes()[static_cast<size_t>(at)].end;
    while (child < end && vocabulary.nodes()[static_cast<size_t>(child)].byte != static_cast<uint8_t>(byte))
      child = vocabulary.nodes()[static_cast<size_t>(child)].end;
    if (child >= end) return {};
    at = child;
  }
  const auto& nodes = vocabulary.nodes();
  const auto sorted = vocabulary.sorted_tokens();
  return {sorted.begin() + nodes[static_cast<size_t>(at)].first_token,
          sorted.begin() + nodes[static_cast<size_t>(nodes[static_cast<size_t>(at)].end)].first_token};
}

TEST(GrammarVocabularyTest, ASubtreeIsARangeOfTokens) {
  const auto vocabulary = Built({"b", "ab", "a", "abc", "", "a"});
  EXPECT_THAT(Below(*vocabulary, ""), ::testing::ElementsAre(2, 5, 1, 3, 0)) << "by bytes, then by id";
  EXPECT_THAT(Below(*vocabulary, "ab"), ::testing::ElementsAre(1, 3));
  EXPECT_THAT(Below(*vocabulary, "abc"), ::testing::ElementsAre(3));
  EXPECT_THAT(Below(*vocabulary, "c"), ::testing::IsEmpty());
  EXPECT_EQ(vocabulary->node_count(), 5);
  EXPECT_EQ(vocabulary->size(), 6);
  EXPECT_EQ(vocabulary->mask_words(), 1u);
}

TEST(GrammarVocabularyTest, EndTokensAndTooLongTokensAreNotText) {
  const std::string longest(255, 'x'), longer(256, 'x');
  const auto vocabulary = Built({"a", "<end>", longest, longer}, {1});
  EXPECT_TRUE(vocabulary->IsEnd(1));
  EXPECT_FALSE(vocabulary->IsEnd(0));
  EXPECT_EQ(vocabulary->bytes(1), "");
  EXPECT_EQ(vocabulary->bytes(2), longest);
  EXPECT_EQ(vocabulary->bytes(3), "");
  EXPECT_THAT(vocabulary->sorted_tokens(), ::testing::ElementsAre(0, 2));
  EXPECT_DEATH(Built({"a"}, {1}), "");
}

TEST(GrammarVocabularyTest, ReportsWhetherAnyTextCanBeGenerated) {
  std::vector<std::string> bytes;
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  std::vector<std::string_view> tokens(bytes.begin(), bytes.end());
  EXPECT_TRUE(Built(tokens)->has_every_byte());
  tokens[200] = "xx";
  EXPECT_FALSE(Built(tokens)->has_every_byte());
}

TEST(GrammarVocabularyTest, SubtreesAreSummarised) {
  const auto root = [](const auto& vocabulary) { return vocabulary->nodes()[0]; };
  const auto ascii = root(Built({"ab", "B"}));
  EXPECT_EQ(ascii.characters, 2);
  EXPECT_TRUE(ascii.utf8);
  EXPECT_FALSE(ascii.others);
  EXPECT_EQ(ascii.ascii[1],
            uint64_t{1} << ('a' - 64) | uint64_t{1} << ('b' - 64) | uint64_t{1} << ('B' - 64));
  EXPECT_EQ(ascii.ascii[0], 0u);
  const auto cut = root(Built({"日", "\xE6\x97"}));
  EXPECT_TRUE(cut.utf8) << "the last character may be incomplete";
  EXPECT_TRUE(cut.others);
  EXPECT_EQ(cut.characters, 1);
  for (const char* broken : {"\x80", "\xC0\xAF", "\xE0\x80", "\xED\xA0\x80", "\xF4\x90", "a\xFF"})
    EXPECT_FALSE(root(Built({broken})).utf8)
        << "not UTF-8, overlong, a surrogate, or beyond the last character";
}

}  // namespace
}  // namespace numoe::text::grammar
