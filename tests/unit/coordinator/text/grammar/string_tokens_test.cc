// Tokens inside JSON strings, by the number of characters that begin in them.
#include "coordinator/text/grammar/string_tokens.h"

#include "coordinator/text/grammar/vocabulary.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

std::vector<TokenId> Allowed(const GrammarVocabulary& vocabulary, StateId place, int least, int most) {
  std::vector<uint64_t> mask(vocabulary.mask_words());
  vocabulary.strings().AddTo(place, least, most, absl::MakeSpan(mask));
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < vocabulary.size(); ++token)
    if (mask[static_cast<size_t>(token) / 64] >> (token % 64) & 1) tokens.push_back(token);
  return tokens;
}

const GrammarVocabulary& Vocabulary() {
  static const auto* const vocabulary = new std::shared_ptr<const GrammarVocabulary>(GrammarVocabulary::Build(
      std::vector<std::string_view>{"a", "ab", "日本", "\"", "a\"", "abc\"", "\",\"", "\n", "\\n", "\\u00e9b",
                                    "\xE6", "\x97\xA5", "<end>"},
      {12}));
  return **vocabulary;
}

TEST(StringTokensTest, BetweenCharactersWithoutBounds) {
  EXPECT_THAT(Allowed(Vocabulary(), BetweenCharacters(), 0, StringTokens::kAnyNumber),
              ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 8, 9, 10))
      << "no raw control character, no incomplete character, nothing after the closing quote";
}

TEST(StringTokensTest, BoundsCountTheCharactersThatBegin) {
  EXPECT_THAT(Allowed(Vocabulary(), BetweenCharacters(), 0, 1), ::testing::ElementsAre(0, 3, 4, 8, 10));
  EXPECT_THAT(Allowed(Vocabulary(), BetweenCharacters(), 2, 2), ::testing::ElementsAre(0, 1, 2, 8, 9, 10))
      << "too short to be closed";
  EXPECT_THAT(Allowed(Vocabulary(), BetweenCharacters(), 3, 3), ::testing::ElementsAre(0, 1, 2, 5, 8, 9, 10));
  EXPECT_THAT(Allowed(Vocabulary(), BetweenCharacters(), 0, 0), ::testing::ElementsAre(3))
      << "a full string can only be closed";
}

TEST(StringTokensTest, TheRestOfAnIncompleteCharacterComesFirst) {
  const StateId inside = StringProgram().Next(BetweenCharacters(), 0xE6);
  EXPECT_THAT(Allowed(Vocabulary(), inside, 0, StringTokens::kAnyNumber), ::testing::ElementsAre(11));
  const StateId escaped = StringProgram().Next(BetweenCharacters(), '\\');
  EXPECT_THAT(Allowed(Vocabulary(), escaped, 0, StringTokens::kAnyNumber), ::testing::ElementsAre(3, 6, 8, 9))
      << "an escaped quote does not close the string, and an escaped backslash does not begin an escape";
}

TEST(StringTokensTest, RemaindersAfterTheQuoteAreKept) {
  const TokenTrie& after = Vocabulary().strings().AfterQuote(BetweenCharacters());
  EXPECT_THAT(after.tokens, ::testing::ElementsAre(6));
  ASSERT_EQ(after.nodes.size(), 4u);
  EXPECT_EQ(after.nodes[1].byte, ',');
}

}  // namespace
}  // namespace numoe::text::grammar
