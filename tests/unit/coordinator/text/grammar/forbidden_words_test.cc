// Exactly the tokens that would complete a forbidden word are forbidden, wherever the word began.
#include "coordinator/text/grammar/forbidden_words.h"

#include <random>
#include <set>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {
namespace {

bool HasOneOf(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (text.find(word) != std::string::npos) return true;
  return false;
}

std::set<TokenId> Forbidden(const ForbiddenWords& words, ForbiddenWords::State state) {
  std::set<TokenId> forbidden;
  words.ForEachForbidden(state, [&](TokenId token) { forbidden.insert(token); });
  return forbidden;
}

// A vocabulary of few letters, so that words overlap themselves, each other and the ends of tokens.
VocabularyPtr Letters() {
  static const auto* const vocabulary = [] {
    std::vector<std::string> tokens = {"a",   "b",     "c",  "ab",  "ba", "aba", "bab",
                                       "cab", "abcab", "aa", " ab", "bb", "cc"};
    std::vector<std::string_view> views(tokens.begin(), tokens.end());
    views.emplace_back();  // a control token
    const auto end = static_cast<TokenId>(tokens.size());
    return new auto(GrammarVocabulary::Build(views, {&end, 1}));
  }();
  return *vocabulary;
}

TEST(ForbiddenWordsTest, ForbidsTheTokensThatATrialOfEveryTokenFinds) {
  std::mt19937_64 random(1);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"ab"}, {"aba", "bab"}, {"aabb", "abbc", "c"}, {"abcabc"}, {"a b", "caab"}}) {
    const ForbiddenWords forbidden(words, Letters());
    for (int walk = 0; walk < 50; ++walk) {
      ForbiddenWords::State state = ForbiddenWords::kStart;
      std::string text;
      for (int step = 0; step < 20; ++step) {
        const std::set<TokenId> found = Forbidden(forbidden, state);
        std::vector<TokenId> left;
        for (TokenId token = 0; token < Letters()->size(); ++token) {
          const bool expected = HasOneOf(text + std::string(Letters()->bytes(token)), words);
          ASSERT_EQ(found.count(token) > 0, expected) << text << " + " << Letters()->bytes(token);
          if (!expected) left.push_back(token);
        }
        ASSERT_FALSE(left.empty());
        const TokenId token = left[random() % left.size()];
        state = forbidden.Next(state, token);
        text = Letters()->bytes(token).empty() ? "" : text + std::string(Letters()->bytes(token));
      }
    }
  }
}

TEST(ForbiddenWordsTest, WordsOfManyBytesAndManyWords) {
  std::vector<std::string> words = {"日本", "\"a\"", "null"};
  for (int i = 0; i < 500; ++i) words.push_back("word" + std::to_string(i));
  const ForbiddenWords forbidden(words, SmallVocabulary());
  ForbiddenWords::State state = ForbiddenWords::kStart;
  for (const char byte : std::string("日\xE6\x9C")) state = forbidden.Next(state, static_cast<uint8_t>(byte));
  EXPECT_TRUE(Forbidden(forbidden, state).count(0xAC)) << "the last byte of the word";
  EXPECT_FALSE(Forbidden(forbidden, state).count(0xAD));
  EXPECT_FALSE(Forbidden(forbidden, ForbiddenWords::kStart).count(0xAC));
}

}  // namespace
}  // namespace numoe::text
