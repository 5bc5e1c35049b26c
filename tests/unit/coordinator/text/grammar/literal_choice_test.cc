// A choice of literals: exactly the tokens with which a text can continue, and the texts that are complete.
#include "coordinator/text/grammar/literal_choice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> Allowed(const LiteralChoice& choice) {
  std::vector<uint64_t> mask(SmallVocabulary()->mask_words());
  choice.AddMask(absl::MakeSpan(mask));
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < SmallVocabulary()->size(); ++token)
    if ((mask[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0) tokens.push_back(token);
  return tokens;
}

TEST(LiteralChoiceTest, ReturnsTheCompleteTexts) {
  LiteralChoice choice(*SmallVocabulary(), {"ab", "a", "", "ab", "b"});
  EXPECT_THAT(choice.Complete(), ElementsAre(2));
  EXPECT_TRUE(choice.Accept('a'));
  EXPECT_THAT(choice.Complete(), ElementsAre(1));
  EXPECT_FALSE(choice.Accept('a'));
  EXPECT_TRUE(choice.Accept('b')) << "a refused token changes nothing";
  EXPECT_THAT(choice.Complete(), ElementsAre(0, 3));
  EXPECT_THAT(Allowed(choice), IsEmpty());
  EXPECT_FALSE(choice.Accept(SmallVocabulary()->end_tokens()[0])) << "an end token is not text";
  EXPECT_FALSE(choice.Accept(-1) || choice.Accept(SmallVocabulary()->size()));
}

TEST(LiteralChoiceTest, AChoiceWithoutTextsAcceptsNothing) {
  LiteralChoice choice(*SmallVocabulary(), {});
  EXPECT_THAT(choice.Complete(), IsEmpty());
  EXPECT_THAT(Allowed(choice), IsEmpty());
}

// Random texts of the vocabulary's tokens: at every step the mask equals that of a trial of every token, and
// that of a compiled choice of the same texts.
TEST(LiteralChoiceTest, MasksEqualATrialOfEveryToken) {
  std::mt19937_64 random(3);
  const GrammarVocabulary& vocabulary = *SmallVocabulary();
  int multiple = 0;
  for (int run = 0; run < 200; ++run) {
    std::vector<std::string> texts;
    for (size_t n = 1 + random() % 12; n > 0; --n) {
      std::string text = random() % 2 == 0 ? "name" : "ab";
      for (size_t i = random() % 5; i > 0; --i)
        text += vocabulary.bytes(static_cast<TokenId>(random() % static_cast<size_t>(vocabulary.size())));
      texts.push_back(text);
    }
    LiteralChoice choice(vocabulary, texts);
    std::string said;
    for (;;) {
      const std::vector<TokenId> allowed = Allowed(choice);
      for (TokenId token = 0; token < vocabulary.size(); ++token) {
        const std::string next = said + std::string(vocabulary.bytes(token));
        const bool fits = next.size() > said.size() &&
                          std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
                            return text.compare(0, next.size(), next) == 0;
                          });
        EXPECT_EQ(std::binary_search(allowed.begin(), allowed.end(), token), fits);
        EXPECT_EQ(LiteralChoice(choice).Accept(token), fits);
      }
      EXPECT_EQ(choice.Complete().size(), static_cast<size_t>(std::count(texts.begin(), texts.end(), said)));
      if (allowed.empty()) break;
      const TokenId token = allowed[random() % allowed.size()];
      multiple += vocabulary.bytes(token).size() > 1;
      ASSERT_TRUE(choice.Accept(token));
      said += vocabulary.bytes(token);
    }
  }
  EXPECT_GT(multiple, 100);
}

}  // namespace
}  // namespace numoe::text
